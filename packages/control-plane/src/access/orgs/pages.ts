import { AppError } from "@statusmesh/shared/errors";
import { normaliseId } from "@statusmesh/shared/ids";
import { hasProvenSecondFactor } from "../auth/second-factor/service.ts";
import { passkeyOrigin } from "../auth/passkeys/service.ts";
import { signedInAs } from "../auth/sessions/service.ts";
import { page } from "../../platform/html/pages.ts";
import type { Ctx } from "../../platform/context.ts";
import { secretAddress } from "../../platform/http/reply/security-headers.ts";
import { zoneNames } from "../../platform/zoned.ts";
import { boundsOf, limitNames, limitWords } from "../plans/schema.ts";
import { changesOf, entryInWords } from "./words.ts";
import { getInvitation, listInvitations, listMembers } from "./members/service.ts";
import { getOrg, listAudit, listOrgs, recordedNames, usage } from "./service.ts";

const pageSize = 50;
/** Owner-only pages answer 404 to members, who have no link to them. */
const notHere = () => new AppError("OWNER_REQUIRED", "Only owners of the organisation can open this page.");

/** Resource filter of the audit log: collection in the path, and display name. */
const auditedTypes = new Map([
  ["targets", "Monitors"],
  ["notification-channels", "Channels"],
  ["status-pages", "Status pages"],
  ["incidents", "Incidents"],
  ["orgs", "Organisation and members"],
  ["api-tokens", "API tokens"],
  ["connected-apps", "Connected apps"],
  ["sessions", "Sessions"],
]);

/** The channels of a ladder, by id. */
export interface LadderChannel {
  id: string;
  name: string;
  /** Kind and state. */
  note: string;
}

/** `channelsOf`: the channels of the caller's organisation, which levels of the ladder name. */
export const tenancyPages = (channelsOf: (ctx: Ctx) => Promise<readonly LadderChannel[]>) => [
  page("/settings/members", "tenant", async ({ ctx, offset }) => {
    const owner = ctx.role === "owner";
    const none = { items: [], total: 0, limit: 0, offset: 0 };
    const [org, members, invitations] = await Promise.all([
      getOrg(ctx, ctx.orgId),
      listMembers(ctx, ctx.orgId, { limit: pageSize, offset }),
      owner ? listInvitations(ctx, ctx.orgId, { limit: 1000, offset: 0 }) : none,
    ]);
    return {
      view: "orgs/members",
      data: { org, members, invitations, owner, userId: ctx.userId, sends: ctx.config.email.smtp_url !== "" },
    };
  }),
  page("/settings/organisation", "tenant", async ({ ctx }) => {
    const [org, orgs] = await Promise.all([getOrg(ctx, ctx.orgId), listOrgs(ctx, { limit: 1000, offset: 0 })]);
    const owner = ctx.role === "owner" && org.deleted_at === null;
    const used = org.deleted_at === null ? await usage(ctx, ctx.orgId) : null;
    const { deletion_grace_period_days: graceDays } = ctx.config.tenancy;
    return {
      view: "orgs/organisation",
      data: {
        org,
        orgs,
        channels: owner ? await channelsOf(ctx) : [],
        zones: owner ? zoneNames : [],
        usage: used,
        words: limitWords,
        owner: ctx.role === "owner",
        secondFactor: await hasProvenSecondFactor(ctx),
        bySession: ctx.actor.type === "session",
        graceDays,
      },
    };
  }),
  // Only the frame: the browser asks for the organisations with the operator secret.
  page("/settings/installation", "tenant", async ({ ctx }) => {
    if (ctx.role !== "owner") throw notHere();
    return {
      view: "orgs/installation",
      data: {
        manages: ctx.config.operator.admin_token !== "",
        limits: limitNames.map((name) => ({ name, label: limitWords[name], ...boundsOf(name) })),
      },
    };
  }),
  page("/settings/audit", "tenant", async ({ ctx, query, offset }) => {
    if (ctx.role !== "owner") throw notHere();
    const asked = {
      user: normaliseId(query["user"] ?? ""),
      type: auditedTypes.has(query["type"] ?? "") ? query["type"]! : "",
      resource: normaliseId(query["resource"]?.slice(0, 100) ?? ""),
    };
    const filter = {
      ...(asked.user === "" ? {} : { user_id: asked.user }),
      ...(asked.type === "" ? {} : { resource_type: asked.type }),
      ...(asked.resource === "" ? {} : { resource_id: asked.resource }),
    };
    const [list, members] = await Promise.all([
      listAudit(ctx, ctx.orgId, { ...filter, limit: pageSize, offset }),
      listMembers(ctx, ctx.orgId, { limit: 1000, offset: 0 }),
    ]);
    const names = await recordedNames(
      ctx,
      list.items.flatMap((entry) => entry.resource_id ?? []),
    );
    const entries = list.items.map((entry) => ({
      ...entry,
      words: entryInWords(entry, names),
      changes: changesOf(entry),
    }));
    return {
      view: "orgs/audit",
      data: {
        list,
        entries,
        members: members.items,
        types: [...auditedTypes],
        query: asked,
        mcp: ctx.config.mcp.enabled,
      },
    };
  }),
  // As with sign-in links: only the button on this page consumes the code.
  page("/invitations/{code}", "public", async ({ ctx, params, http }) => {
    const code = params["code"]!;
    const invitation = await getInvitation(ctx, code, await signedInAs(ctx, http));
    return {
      view: "orgs/invitation",
      data: {
        code,
        invitation,
        byPassword: ctx.config.auth.enabled_methods.includes("password"),
        passkeysAt: passkeyOrigin(ctx.config),
      },
      status: invitation === null ? 404 : 200,
      headers: secretAddress,
    };
  }),
];
