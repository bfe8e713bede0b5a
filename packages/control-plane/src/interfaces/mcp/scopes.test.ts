import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import Type from "typebox";
import { scopes } from "../../platform/context.ts";
import { tool } from "../../platform/http/tool.ts";
import { openMcp } from "../../testing/mcp.ts";
import { authorizePath, codeForm, oauthOn, openFlow, resource } from "../../testing/oauth.ts";
import { newOrg } from "../../testing/world.ts";

/* A tool may have any scope: the authorization server offers it, asks the user with words, and issues it. */

const closed = { additionalProperties: false } as const;
const nameOf = (scope: string): string => `use_${scope.replace(":", "_")}`;
const moreTools = scopes.map((scope) =>
  tool({
    name: nameOf(scope),
    title: scope,
    description: scope,
    scope,
    input: Type.Object({}, closed),
    output: Type.Object({ used: Type.String() }, closed),
    ...(scope.endsWith(":read")
      ? {}
      : {
          confirm: {
            ask: async () => "Do it?",
            idempotent: true,
            destructive: false,
            openWorld: false,
            action: null,
          },
        }),
    handle: async () => ({ used: scope }),
  }),
);

t.test("every scope of a tool goes from the metadata over the consent page to a call", async (t) => {
  const mcp = await openMcp(t, { env: oauthOn, more: { moreTools } });
  const flow = await openFlow(mcp.replicas[0], await newOrg(mcp.world.system));
  const metadata = await flow.send("/.well-known/oauth-protected-resource", {
    headers: { host: new URL(resource).host },
  });
  t.strictSame(metadata.json.scopes_supported.toSorted(), [...scopes].sort());

  const page = await flow.send(authorizePath(flow, { scope: metadata.json.scopes_supported.join(" ") }), {
    headers: flow.browser,
  });
  for (const scope of scopes)
    t.match(page.text, new RegExp(`[A-Z][a-z][^<>]{8,} <code class="sub">${scope}</code>`), `words for ${scope}`);
  const field = /name="request" value="([^"]+)"/.exec(page.text)![1]!;
  const ticked = scopes.filter((scope) => !scope.endsWith(":read")).map((scope) => `&scope=${scope}`);
  const answered = await flow.send("/oauth/authorize", {
    form: `request=${field}${ticked.join("")}&days=30&decision=approve`,
    headers: flow.browser,
  });
  const tokens = await flow.send("/oauth/token", { form: codeForm(flow, answered.to.get("code")!) });
  t.strictSame(tokens.json.scope.split(" ").sort(), [...scopes].sort());

  const client = await mcp.client(tokens.json.access_token, () => ({ action: "accept", content: { confirm: true } }));
  for (const scope of scopes)
    matchObject(t, await client.callTool({ name: nameOf(scope), arguments: {} }), {
      structuredContent: { used: scope },
    });
});

t.test("a scope that no tool has is neither offered nor issued", async (t) => {
  const mcp = await openMcp(t, { env: oauthOn });
  const flow = await openFlow(mcp.replicas[0], await newOrg(mcp.world.system));
  const page = await flow.send(authorizePath(flow, { scope: "targets:read org:write" }), { headers: flow.browser });
  t.match(page.text, "targets:read");
  t.notMatch(page.text, "org:write");
});
