import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { createServer } from "node:tls";
import { generate } from "selfsigned";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { nameServer } from "sm-agent/probes/dns/testing-dns";
import { connect, type Json } from "../harness/api.ts";
import { openBrowser, openPage } from "../harness/browser.ts";
import { startControlPlane } from "../harness/processes.ts";
import { requires } from "../harness/requires.ts";
import { startSink } from "../harness/sink.ts";
import { waitFor } from "../harness/wait.ts";

/*
 * Certificates and names, watched from the form to the notice: what the API answers is a document, what people read is
 * a sentence.
 */

const dayMs = 86_400_000;
const longDate = (date: Date): string =>
  date.toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" });
const token = `sm_live_${"kinds".repeat(8)}`;
const notAfter = new Date(Math.floor((Date.now() + 5.5 * dayMs) / 1000) * 1000);
const words = `certificate of shop.example.org expires in 5 days, on ${notAfter.toISOString().slice(0, 10)}`;

/** A TLS server whose certificate ends soon. */
async function expiringServer(t: Test): Promise<number> {
  const { private: key, cert } = await generate([{ name: "commonName", value: "shop.example.org" }], {
    algorithm: "sha256",
    keyType: "ec",
    notAfterDate: notAfter,
  });
  const server = createServer({ key, cert }, (socket) => socket.on("error", () => undefined).resume());
  await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
  t.teardown(() => server.close());
  return (server.address() as AddressInfo).port;
}

const sink = await startSink(t);
const port = await expiringServer(t);
const names = await nameServer(t, {
  "www.example.org": { answers: [{ type: "A", name: "www.example.org", ttl: 60, data: "192.0.2.80" }] },
});
const { url, signInLink } = await startControlPlane(t, { env: { SM_BOOTSTRAP__TOKEN: token }, caFile: sink.caFile });
const api = connect(t, url, token);

const firstResult = async (id: string): Promise<Json> =>
  waitFor("the first result", async () => (await api.get(`/api/v1/targets/${id}/results`)).body.items[0]);

t.test(
  "a certificate that ends soon opens an incident, in words for people and as a document for programs",
  async (t) => {
    const channel = (
      await api.post("/api/v1/notification-channels", {
        name: "Duty",
        config: { type: "webhook", url: `${sink.url}/duty` },
      })
    ).body;
    const check = { type: "tls_cert", host: "127.0.0.1", port };
    const body = { name: "Shop certificate", check, alerts: [{ channel_id: channel.id }], alert_confirmations: 1 };
    const { id, interval } = (await api.post("/api/v1/targets", body)).body;
    t.equal(interval, 86_400);

    const result = await firstResult(id);
    matchObject(t, result, { status: "down", dns_ms: null, ttfb_ms: null, http_status: null });
    t.ok(result.connect_ms > 0 && result.tls_ms > 0);
    const document = {
      days_remaining: 5,
      not_after: notAfter.toISOString(),
      subject_common_name: "shop.example.org",
      issuer_common_name: "shop.example.org",
    };
    t.strictSame(JSON.parse(result.error), document);
    const incident = await waitFor(
      "the incident",
      async () => (await api.get(`/api/v1/incidents?target_id=${id}`)).body.items[0],
    );
    t.strictSame(JSON.parse(incident.error_sample), document);
    const { notice } = await waitFor("the notice", () => sink.about(id)[0]);
    matchObject(t, notice, { reason: "opened", error_sample: words });

    const lax = (
      await api.post("/api/v1/targets", {
        ...body,
        name: "Lax",
        alerts: [],
        check: { ...check, warn_days: 2, critical_days: 1 },
      })
    ).body;
    matchObject(t, await firstResult(lax.id), { status: "up", error: null, details: document });
    matchObject(t, (await api.post("/api/v1/targets/test", { ...check, critical_days: 3 })).body, {
      result: { status: "degraded", details: document },
      matched_expectations: false,
    });
    const expiry = `Expires in 5 days, on ${longDate(notAfter)}, issued by shop.example.org`;
    const page = await waitFor("the page that leads with it", async () => {
      const { text } = await api.get(`/monitors/${lax.id}`);
      return text.includes(`<strong>${expiry}.</strong>`) ? text : null;
    });
    t.match(page, /<strong>\s*Up\s+since/);
    const list = (await api.get("/monitors?sort=days_left")).text;
    t.ok(list.includes(`certificate of 127.0.0.1, port ${port} · ${expiry}`), "and so does its row");
    t.match(list, /Monitors by days left/i);
    await api.delete(`/api/v1/targets/${lax.id}`);
  },
);

t.test("parallel tests of one host wait for each other, and are busy rather than throttled", async (t) => {
  const check = { type: "tls_cert", host: "127.0.0.1", port, warn_days: 2, critical_days: 1 };
  const tests = await Promise.all(Array.from({ length: 20 }, () => api.post("/api/v1/targets/test", check)));
  t.strictSame(
    tests.map(({ status, body }) => `${status} ${body.result?.status}`),
    Array<string>(20).fill("200 up"),
  );
  const mute = createTcpServer((socket) => socket.on("error", () => undefined).resume());
  await new Promise<void>((settle) => mute.listen(0, "127.0.0.1", settle));
  t.teardown(() => mute.close());
  const silent = { ...check, port: (mute.address() as AddressInfo).port, timeout: 1000 };
  const answers = await Promise.all(Array.from({ length: 6 }, () => api.post("/api/v1/targets/test", silent)));
  const answered = answers.map(({ status, body }) => (status === 200 ? body.result.error : body.error.code));
  t.ok(answered.includes("TLS handshake timed out after 1.0 s"));
  t.ok(answered.includes("PROBE_BUSY"));
  t.strictSame(
    answered.filter((one) => one !== "PROBE_BUSY" && one !== "TLS handshake timed out after 1.0 s"),
    [],
  );
  t.match(answers.find(({ status }) => status === 503)?.body.error.message, /no capacity for this run within 1 s/);
});

t.test("a name, over the agent's wire", async (t) => {
  const check = { type: "dns", domain: "www.example.org.", resolver: names.address };
  const up = (await api.post("/api/v1/targets", { name: "Name", check })).body;
  matchObject(t, await firstResult(up.id), {
    status: "up",
    error: null,
    connect_ms: null,
    tls_ms: null,
    ttfb_ms: null,
    dns_ms: Number,
  });
  const { body } = await api.post("/api/v1/targets/test", { ...check, expected_contains: "192.0.2.81" });
  matchObject(t, body.result, {
    status: "down",
    error: 'no A record of www.example.org contains "192.0.2.81"; found: 192.0.2.80',
  });
  await api.delete(`/api/v1/targets/${up.id}`);
});

/**
 * Ids of the fields whose errors are not seen: for each field of each kind and alternative of the form, with all that
 * folds closed, the error of the API that names it, and for a number the refusal of one that is out of bounds.
 */
const unseenErrors = `async () => {
  const form = document.querySelector("form[data-api]");
  const module = [...document.querySelectorAll("link[rel=modulepreload]")].find(({ href }) => /\\/form\\b/.test(href));
  const { clearErrors, showError } = await import(module.href);
  const unseen = new Set();
  const walked = new Set();
  const fold = () => {
    for (const section of form.querySelectorAll("details")) section.open = false;
    const number = form.querySelector("[data-other]");
    if (number) number.hidden = true;
    document.activeElement.blur();
  };
  const isSeen = (control) => {
    const note = form.querySelector(".error-note");
    const at = document.activeElement;
    const own = at === control || at.name === control.name || note?.parentElement.contains(at);
    return note?.checkVisibility() && at.checkVisibility() && own;
  };
  const walk = () => {
    for (const control of form.elements) {
      if (!control.name?.startsWith("/") || control.type === "hidden" || control.matches(":disabled")) continue;
      if (control.name === "/check/type" || walked.has(control)) continue;
      walked.add(control);
      fold();
      showError(form, { message: "Wrong.", field: control.name });
      if (!isSeen(control)) unseen.add(control.id || control.name);
      clearErrors(form);
      const channel = control.closest(".opt")?.querySelector("[type=checkbox]");
      if (channel) channel.checked = true;
      if (control.type !== "number" || control.min === "") continue;
      const value = control.value;
      control.value = String(control.min - 1);
      fold();
      form.requestSubmit();
      const note = control.closest(".field, .opt, [data-rung]").querySelector(".error-note");
      if (!note?.checkVisibility()) unseen.add("the number " + (control.id || control.name));
      control.value = value;
      clearErrors(form);
    }
  };
  const choose = (name, value) => {
    const controls = [...form.elements].filter((own) => own.name === name && !own.matches(":disabled"));
    const choice = controls.find((own) => own.type !== "radio" || own.value === value);
    if (!choice) return;
    if (choice.type === "radio") choice.checked = true;
    else choice.value = value;
    choice.dispatchEvent(new Event("change", { bubbles: true }));
    walk();
  };
  for (const kind of form.querySelectorAll('[name="/check/type"]:enabled')) choose(kind.name, kind.value);
  walk();
  for (const kind of [...form.querySelectorAll('[name="/check/type"]')].filter((own) => own.checked || !own.disabled)) {
    if (!kind.disabled) choose(kind.name, kind.value);
    for (const box of form.querySelectorAll("[data-when]:not([data-when^='/check/type'])"))
      choose(box.dataset.when.split("=")[0], box.dataset.when.split("=")[1].split("|")[0]);
  }
  return { unseen: [...unseen], walked: walked.size };
}`;

t.test("in the console", async (t) => {
  if (!(await requires(t, "chromium"))) return;
  const browser = await openBrowser(t);
  const page = await openPage(t, await browser.newContext({ baseURL: url, viewport: { width: 1280, height: 800 } }));
  await page.goto(signInLink!);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL(`${url}/`);
  const noSideways = async (what: string) => {
    for (const width of [390, 1280]) {
      await page.setViewportSize({ width, height: 800 });
      t.ok(
        await page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"),
        `${what} fits ${width} px`,
      );
    }
  };

  await page.getByText(words).first().waitFor();
  await noSideways("list");
  await page.getByRole("link", { name: "Shop certificate" }).first().click();
  await page.getByText(words).first().waitFor();
  t.notMatch(await page.content(), "days_remaining", "nobody has to read a document");
  await noSideways("monitor");
  await page.getByRole("link", { name: "View incident" }).click();
  await page.getByText(words).first().waitFor();
  t.notMatch(await page.content(), "days_remaining");

  await page.goto("/monitors/new?kind=tls_cert");
  const offered = page.locator("[data-every] .seg label:visible");
  t.same(await offered.allInnerTexts(), ["1 h", "1 day", "Other"], "no interval below the minimum of the kind");
  const fields = (await page.evaluate(`(${unseenErrors})()`)) as { unseen: string[]; walked: number };
  t.same(fields.unseen, []);
  t.ok(fields.walked > 80, `${fields.walked} fields of all kinds`);
  await page.evaluate("document.querySelector('form[data-api]').reset()");

  await page.goto("/monitors/new");
  /** A control of the kind that is chosen: those of the others are in the page too, hidden. */
  const control = (label: string) => page.getByLabel(label, { exact: true }).locator("visible=true");
  const interval = page.getByLabel("Check interval (seconds)");
  await page.getByLabel("TLS certificate", { exact: true }).check();
  t.strictSame([await interval.inputValue(), await interval.getAttribute("min")], ["86400", "3600"]);
  await page.getByText("Advanced TLS options").locator("visible=true").click();
  await noSideways("form-tls_cert");
  await page.getByLabel("Name", { exact: true }).fill("Certificate");
  await control("Host").fill("127.0.0.1");
  await control("Port").fill(String(port));
  await control("Warn when fewer than (days)").fill("6");
  await page.getByRole("button", { name: "Add monitor" }).click();
  t.match(await page.locator(".error-note").textContent(), "must be more than critical_days");
  await control("Critical when fewer than (days)").fill("2");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.locator("#run .state.degraded").waitFor();
  t.ok((await page.locator("#run").textContent())?.includes(words), "the words of every other page");

  await page.getByLabel("DNS", { exact: true }).check();
  t.strictSame([await interval.inputValue(), await interval.getAttribute("min")], ["60", "10"]);
  await page.getByText("Advanced DNS options").locator("visible=true").click();
  await noSideways("form-dns");
  await control("Domain").fill("www.example.org");
  await control("Name server").fill("dns.example.org/x");
  await page.getByRole("button", { name: "Add monitor" }).click();
  t.match(await page.locator(".error-note").textContent(), "is not a name server");
  await control("Name server").fill(names.address);
  await page.getByRole("button", { name: "Add monitor" }).click();
  await page.waitForURL(/\/monitors\/[0-9a-f-]{36}$/);
  await page.locator(".title h1 .pill", { hasText: "Up" }).waitFor();
  await noSideways("monitor-dns");
  const [id] = /[0-9a-f-]{36}$/.exec(page.url())!;
  page.on("dialog", (dialog) => void dialog.accept());
  for (const path of [`/monitors/new?from=${id}`, `/monitors/${id}/edit`]) {
    await page.goto(path);
    t.same(((await page.evaluate(`(${unseenErrors})()`)) as { unseen: string[] }).unseen, [], path);
  }
  await page.goto(`/monitors/${id}/edit`);
  await control("Response must contain").fill("192.0.2.80");
  const sent = page.waitForRequest((request) => request.method() === "PATCH");
  await page.getByRole("button", { name: "Save" }).click();
  t.same((await sent).postDataJSON(), { check: { expected_contains: "192.0.2.80" } });
});
