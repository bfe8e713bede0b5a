import { AuditEntry, AuditPage, AuditQuery } from "../audit/schema.ts";
import { ListQuery, Session } from "../auth/schema.ts";
import { askingForCode, callerOf, signedInAs, signedInCookies } from "../auth/sessions/service.ts";
import { createdIn, ok, route, type Route } from "../../platform/http/route.ts";
import { asOwner } from "./access.ts";
import * as schema from "./schema.ts";
import * as members from "./members/service.ts";
import * as orgs from "./service.ts";

const tag = "Organisations";
const read = { auth: "tenant", scope: "org:read", tag } as const;
const write = { auth: "tenant", scope: "org:write", tag } as const;
const absent = ["ORG_NOT_FOUND"] as const;
/** For the owners of the organisation that the path names. */
const ownerOnly = {
  role: "owner",
  requireRole: ({ ctx, params }) => asOwner(ctx, params["id"]!),
} as const satisfies Pick<Route, "role" | "requireRole">;
const ownerOfDeletedToo = {
  role: "owner",
  requireRole: ({ ctx, params }) => asOwner(ctx, params["id"]!, true),
} as const satisfies Pick<Route, "role" | "requireRole">;

const orgRoutes = (effects: orgs.OrgEffects & orgs.LadderEffects): Route[] => [
  route("GET", "/api/v1/orgs", {
    ...read,
    summary: "List the caller's organisations",
    query: ListQuery,
    replies: { 200: schema.OrgPage },
    handle: async ({ ctx, query }) => ok(await orgs.listOrgs(ctx, query)),
  }),
  route("POST", "/api/v1/orgs", {
    ...write,
    summary: "Create an organisation, owned by the caller",
    body: schema.OrgCreate,
    replies: { 201: schema.Org },
    errors: ["INVALID_SLUG", "SLUG_TAKEN", "QUOTA_EXCEEDED", "FORBIDDEN"],
    handle: async ({ ctx, body }) => createdIn("/api/v1/orgs/", await orgs.createOrg(ctx, body)),
  }),
  route("GET", "/api/v1/orgs/{id}", {
    ...read,
    summary: "One organisation",
    replies: { 200: schema.Org },
    errors: absent,
    handle: async ({ ctx, params }) => ok(await orgs.getOrg(ctx, params.id)),
  }),
  route("PATCH", "/api/v1/orgs/{id}", {
    ...write,
    ...ownerOnly,
    summary: "Change name, slug, time zone, default escalation ladder or required second factor of an organisation",
    description: "A session that changes require_second_factor must be fresh; an owner who turns it on has one.",
    body: schema.OrgPatch,
    replies: { 200: schema.Org },
    errors: [
      ...absent,
      "INVALID_SLUG",
      "SLUG_TAKEN",
      "INVALID_ALERT_CONFIG",
      "INVALID_TIME_ZONE",
      "FRESH_SIGN_IN_REQUIRED",
      "FORBIDDEN",
    ],
    handle: async ({ ctx, params, body }) => ok(await orgs.updateOrg(ctx, params.id, body, effects)),
  }),
  route("DELETE", "/api/v1/orgs/{id}", {
    ...write,
    ...ownerOnly,
    summary: "Delete an organisation",
    description:
      "Members and tokens are refused and checks stop at once. Owners can restore it for " +
      "tenancy.deletion_grace_period_days (30); then it is deleted with all its data.",
    replies: { 204: null },
    errors: [...absent, "FRESH_SIGN_IN_REQUIRED"],
    handle: async ({ ctx, params }) => orgs.deleteOrg(ctx, params.id, effects),
  }),
  route("POST", "/api/v1/orgs/{id}/restore", {
    ...write,
    ...ownerOfDeletedToo,
    summary: "Restore a deleted organisation",
    replies: { 200: schema.Org },
    errors: [...absent, "QUOTA_EXCEEDED"],
    handle: async ({ ctx, params }) => ok(await orgs.restoreOrg(ctx, params.id, effects)),
  }),
  route("POST", "/api/v1/orgs/{id}/switch", {
    auth: "tenant",
    tag,
    summary: "Switch the caller's session to this organisation",
    replies: { 200: schema.Org },
    errors: [...absent, "FORBIDDEN"],
    handle: async ({ ctx, params }) => ok(await orgs.switchOrg(ctx, params.id)),
  }),
  route("GET", "/api/v1/orgs/{id}/usage", {
    ...read,
    summary: "Plan limits and current usage",
    replies: { 200: schema.Usage },
    errors: absent,
    handle: async ({ ctx, params }) => ok(await orgs.usage(ctx, params.id)),
  }),
  route("GET", "/api/v1/orgs/{id}/audit", {
    ...read,
    ...ownerOnly,
    summary: "Audit log, newest first",
    description: "One entry for each write, kept for retention.audit_days (730).",
    query: AuditQuery,
    replies: { 200: AuditPage },
    errors: absent,
    cache: "no-store",
    handle: async ({ ctx, params, query }) => ok(await orgs.listAudit(ctx, params.id, query)),
  }),
  route("GET", "/api/v1/orgs/{id}/audit/{entry_id}", {
    ...read,
    ...ownerOnly,
    summary: "One entry of the audit log",
    description: "With every id of a bulk request, of which the list shows the first hundred.",
    replies: { 200: AuditEntry },
    errors: [...absent, "AUDIT_ENTRY_NOT_FOUND"],
    cache: "no-store",
    handle: async ({ ctx, params }) => ok(await orgs.getAuditEntry(ctx, params.id, params.entry_id)),
  }),
];

const memberRoutes: Route[] = [
  route("GET", "/api/v1/orgs/{id}/members", {
    ...read,
    summary: "List the members",
    query: ListQuery,
    replies: { 200: schema.MemberPage },
    errors: absent,
    handle: async ({ ctx, params, query }) => ok(await members.listMembers(ctx, params.id, query)),
  }),
  route("PATCH", "/api/v1/orgs/{id}/members/{user_id}", {
    ...write,
    everyScope: true,
    ...ownerOnly,
    summary: "Change the role of a member",
    body: schema.MemberPatch,
    description: "A session that makes an owner must be fresh.",
    replies: { 200: schema.Member },
    errors: [...absent, "MEMBER_NOT_FOUND", "LAST_OWNER", "FRESH_SIGN_IN_REQUIRED"],
    handle: async ({ ctx, params, body }) => ok(await members.updateMember(ctx, params.id, params.user_id, body.role)),
  }),
  route("DELETE", "/api/v1/orgs/{id}/members/{user_id}", {
    ...write,
    everyScope: true,
    role: "owner_or_self",
    summary: "Remove a member, or leave",
    description: "Owners remove any member; every member may leave. The last owner cannot leave.",
    replies: { 204: null },
    errors: [...absent, "MEMBER_NOT_FOUND", "LAST_OWNER"],
    handle: async ({ ctx, params }) => members.removeMember(ctx, params.id, params.user_id),
  }),
];

const invitationRoutes: Route[] = [
  route("GET", "/api/v1/orgs/{id}/invitations", {
    ...read,
    ...ownerOnly,
    summary: "List the pending invitations",
    query: ListQuery,
    replies: { 200: schema.InvitationPage },
    errors: absent,
    handle: async ({ ctx, params, query }) => ok(await members.listInvitations(ctx, params.id, query)),
  }),
  route("POST", "/api/v1/orgs/{id}/invitations", {
    ...write,
    everyScope: true,
    ...ownerOnly,
    summary: "Invite a person by email",
    description: "The link is sent to that address only and is valid for one week (168 h).",
    body: schema.InvitationCreate,
    replies: { 201: schema.NewInvitation },
    errors: [
      ...absent,
      "ALREADY_MEMBER",
      "ALREADY_INVITED",
      "INVITATIONS_LIMIT",
      "QUOTA_EXCEEDED",
      "FRESH_SIGN_IN_REQUIRED",
    ],
    handle: async ({ ctx, params, body }) =>
      createdIn(`/api/v1/orgs/${params.id}/invitations#`, await members.createInvitation(ctx, params.id, body)),
  }),
  route("DELETE", "/api/v1/orgs/{id}/invitations/{invitation_id}", {
    ...write,
    everyScope: true,
    ...ownerOnly,
    summary: "Revoke a pending invitation",
    replies: { 204: null },
    errors: [...absent, "INVITATION_NOT_FOUND"],
    handle: async ({ ctx, params }) => members.revokeInvitation(ctx, params.id, params.invitation_id),
  }),
  route("POST", "/api/v1/invitations/accept", {
    auth: "public",
    tag,
    summary: "Accept an invitation with the code of its link, and sign in",
    description:
      "Sets the session cookie. An address that has an account signs in first; a session of another address " +
      "is refused.",
    body: schema.InvitationAccept,
    replies: { 201: Session },
    errors: [
      "INVITATION_INVALID",
      "INVITATION_FOR_ANOTHER",
      "QUOTA_EXCEEDED",
      "UNAUTHENTICATED",
      "CODE_REQUIRED",
      "CSRF_REJECTED",
      "WEAK_PASSWORD",
      "NOT_FOUND",
    ],
    handle: async ({ ctx, body, http }) => {
      const caller = await signedInAs(ctx, http);
      const opened = await askingForCode(ctx, http, async () =>
        members.acceptInvitation(ctx, { ...body, caller, ...callerOf(ctx, http) }),
      );
      http.set("Set-Cookie", await signedInCookies(ctx, opened));
      return { status: 201, body: opened.session };
    },
  }),
];

export const tenancyRoutes = (effects: orgs.OrgEffects & orgs.LadderEffects): Route[] => [
  ...orgRoutes(effects),
  ...memberRoutes,
  ...invitationRoutes,
];
