import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { Content, Notice } from "../../sending/content.ts";
import type { OutboundRequest } from "../../../../platform/outbound/client.ts";
import { telegramText } from "../telegram.ts";
import { templateParameters } from "../whatsapp.ts";
import { needsUnicode, segmentsOf } from "./segments.ts";
import { sms, smsText } from "./index.ts";

const notice = (changes: Partial<Notice> = {}): Notice => ({
  incident_id: "0190a000-0000-7000-8000-000000000001",
  target_id: "0190a000-0000-7000-8000-000000000002",
  monitor_name: "Checkout API",
  reason: "opened",
  severity: "major",
  urgency: "high",
  started_at: "2026-11-20T13:02:00.000Z",
  ended_at: null,
  outage_since: null,
  duration_secs: null,
  error_sample: "connection refused",
  regions_down: ["Frankfurt", "Oregon"],
  regions_up: ["Tokyo"],
  url: "https://status.example.org/incidents/0190a000-0000-7000-8000-000000000001",
  ...changes,
});
const content = (changes: Partial<Notice> = {}) => ({ kind: "notice", notice: notice(changes) }) as const;
const hostileRounds = (cause: string): Extract<Content, { kind: "round" }> => ({
  kind: "round",
  round: {
    said: "opened",
    severity: "major",
    fresh: 880,
    recovered: 0,
    brief: 0,
    causes: 10,
    lines: Array.from({ length: 10 }, (_, at) => ({
      cause: { kind: "host", value: `${cause}${at}` },
      severity: "major",
      said: "opened",
      fresh: 88,
      open: 88,
      recovered: 0,
      brief: 0,
      level: null,
      since: notice().started_at,
      began_at: null,
      ended_at: null,
      error: "y".repeat(900),
      same_error: true,
      names: ["x".repeat(200)],
      brief_names: [],
    })),
    url: "https://status.example.org/incidents",
  },
});
const many = hostileRounds("host".repeat(50));

t.test("segments are counted as networks count them", async (t) => {
  const cases: [string, number, boolean][] = [
    ["", 1, false],
    ["a".repeat(160), 1, false],
    ["a".repeat(161), 2, false],
    ["a".repeat(306), 2, false],
    ["a".repeat(307), 3, false],
    ["€".repeat(80), 1, false],
    ["€".repeat(81), 2, false],
    // Seven septets of a segment cannot be half of a pair: 76 euro signs fit into 153.
    ["€".repeat(152), 2, false],
    ["€".repeat(153), 3, false],
    ["ñöß@£_Ω\n", 1, false],
    ["ç", 1, true],
    ["ж".repeat(70), 1, true],
    ["ж".repeat(71), 2, true],
    ["ж".repeat(134), 2, true],
    ["ж".repeat(135), 3, true],
    ["😀".repeat(35), 1, true],
    ["😀".repeat(36), 2, true],
    ["😀".repeat(66), 2, true],
    ["😀".repeat(67), 3, true],
  ];
  for (const [text, segments, unicode] of cases) {
    t.equal(segmentsOf(text), segments, `${text.slice(0, 2)} x ${[...text].length}`);
    t.equal(needsUnicode(text), unicode, text.slice(0, 8));
  }
});

t.test("a text message has at most three segments and keeps its link", async (t) => {
  const [usual, long, cyrillic, round] = [
    smsText(content()),
    smsText(content({ error_sample: "e".repeat(10_000), monitor_name: "n".repeat(200) })),
    smsText(content({ error_sample: "ошибка ".repeat(500), monitor_name: "Магазин ".repeat(25) })),
    smsText(many),
  ];
  t.equal(
    usual,
    [
      "Down: Checkout API",
      "Cause: connection refused",
      "Since: 2026-11-20 13:02 UTC",
      "Severity: major",
      "Regions down: Frankfurt, Oregon",
      notice().url,
    ].join("\n"),
  );
  for (const text of [usual, long, cyrillic]) {
    t.ok(segmentsOf(text) <= 3, `${segmentsOf(text)} segments`);
    t.ok(text.endsWith(`\n${notice().url}`));
  }
  t.ok(segmentsOf(round) <= 3);
  t.equal(round.split("\n").length, 2, "one line and a link");
  t.equal(segmentsOf(long), 3, "and uses its room");
  t.notOk(needsUnicode(smsText(content({ monitor_name: "“Shop” – EU…" }))), "typographic characters cost nothing");
  t.ok(smsText(content({ url: `https://x.example/${"a".repeat(600)}` })).startsWith("Down: Checkout API"));
});

t.test("a Telegram text has at most 4096 UTF-16 units and no mention", async (t) => {
  const text = telegramText(content({ monitor_name: "@everyone @ops_team <b>*x*</b>" }));
  t.notMatch(text, /@\w/);
  t.match(text, "<b>*x*</b>", "markup is text: there is no parse_mode");
  const emoji = telegramText(hostileRounds("😀".repeat(200)));
  t.ok(emoji.length <= 4096, `${emoji.length}`);
  t.ok(emoji.isWellFormed());
  t.ok(emoji.endsWith(many.round.url));
});

t.test("parameters of a WhatsApp template are single lines, and fill at most 1024 characters", async (t) => {
  for (const one of [content(), content({ error_sample: "a\n\tb    c".repeat(2000) }), many]) {
    const parameters = templateParameters(one);
    t.equal(parameters.length, 3);
    for (const parameter of parameters) t.notMatch(parameter, /[\n\t]| {4}/);
    t.ok(parameters.join("").length < 1000, String(parameters.join("").length));
  }
});

t.test("each provider gets its documented request, and its errors are recognised", async (t) => {
  const to = { type: "sms", to: "+4915112345678", from: "+15005550006" } as const;
  const cases = [
    {
      config: { ...to, provider: "telnyx", api_key: "KEY-telnyx" },
      request: [
        "https://api.telnyx.com/v2/messages",
        "Bearer KEY-telnyx",
        '"from":"+15005550006","to":"+4915112345678"',
      ],
      good: '{"data":{"id":"1"}}',
      bad: [422, '{"errors":[{"code":"40300","title":"Blocked","detail":"STOP message"}]}', /40300 Blocked STOP/, true],
    },
    {
      config: { ...to, provider: "vonage", api_key: "abcd1234", api_secret: "SECRET-vonage" },
      request: ["https://rest.nexmo.com/sms/json", undefined, "to=4915112345678&from=15005550006"],
      good: '{"message-count":"1","messages":[{"status":"0"}]}',
      bad: [200, '{"messages":[{"status":"4","error-text":"Bad Credentials"}]}', /status 4: Bad Credentials/, true],
    },
    {
      config: { ...to, provider: "vonage", api_key: "abcd1234", api_secret: "SECRET-vonage" },
      request: ["https://rest.nexmo.com/sms/json", undefined, "type=text"],
      good: '{"messages":[{"status":"0"}]}',
      bad: [200, '{"messages":[{"status":"1","error-text":"Throttled"}]}', /Throttled/, false],
    },
    {
      config: { ...to, provider: "plivo", auth_id: "MAEXAMPLE", auth_token: "SECRET-plivo" },
      request: [
        "https://api.plivo.com/v1/Account/MAEXAMPLE/Message/",
        /^Basic /,
        '"src":"15005550006","dst":"4915112345678"',
      ],
      good: '{"message":"message(s) queued","message_uuid":["1"]}',
      bad: [401, '{"error":"invalid auth"}', /invalid auth/, true],
    },
    {
      config: { ...to, provider: "sinch", service_plan_id: "plan1", api_token: "SECRET-sinch", region: "eu" },
      request: ["https://eu.sms.api.sinch.com/xms/v1/plan1/batches", "Bearer SECRET-sinch", '"to":["4915112345678"]'],
      good: '{"id":"1"}',
      bad: [400, '{"code":"syntax_invalid_parameter_format","text":"Invalid number"}', /Invalid number/, true],
    },
  ] as const;
  const off = { access_token: "", app_secret: "", number: "", phone_number_id: "", verify_token: "" };
  const central = {
    slack: { signing_secret: "" },
    telegram: { bot_token: "", bot_username: "", webhook_secret: "" },
    whatsapp: { ...off, template_name: "", template_language: "" },
  };
  for (const { config, request, good, bad } of cases) {
    sms.rules(config, { http: false });
    const asked: OutboundRequest[] = [];
    let answer: [status: number, text: string] = [200, good];
    const http = {
      async send(sent: OutboundRequest) {
        asked.push(sent);
        return { status: answer[0], text: answer[1], retryAfterSecs: null };
      },
    };
    const send = () =>
      sms.send(
        config,
        { deliveryId: "1", content: content(), sentAt: 0 },
        { http, central, mail: async () => undefined, push: async () => undefined },
      );
    await send();
    const [url, authorization, part] = request;
    t.equal(asked[0]?.url, url);
    matchObject(t, asked[0]?.headers["authorization"], authorization);
    matchObject(t, asked[0]?.body, part);
    const secrets: string[] = [];
    sms.mapSecrets(config, (secret) => (secrets.push(secret), secret));
    t.equal(secrets.length, 1, "one secret");
    t.equal(sms.endpoint(config), config.provider);
    const [status, text, error, permanent] = bad;
    answer = [status, text];
    await t.rejects(send(), { name: "DeliveryError", message: error, permanent, status });
  }
});

t.test("a change of the provider or of its region moves the secrets", async (t) => {
  const sinch = { type: "sms", provider: "sinch", to: "+4915112345678", from: "Acme" } as const;
  t.equal(sms.complete(sinch).region, "us", "replies have the region that is used");
  t.equal(sms.complete({ ...sinch, region: "br" }).region, "br");
  t.notOk("region" in sms.complete({ ...sinch, provider: "twilio" }), "other providers have none");
  t.same(sms.secretsGoTo(sinch), { origin: "https://us.sms.api.sinch.com", verified: true });
  t.same(sms.secretsGoTo({ ...sinch, region: "ca" }), { origin: "https://ca.sms.api.sinch.com", verified: true });
});
