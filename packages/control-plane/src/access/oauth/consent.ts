import { createHmac } from "node:crypto";
import { newId } from "@statusmesh/shared/ids";
import { dayMs, minuteMs } from "@statusmesh/shared/time";
import { record } from "../audit/service.ts";
import type { BrowserSession } from "../auth/sessions/service.ts";
import { type Ctx, inTransaction, isReadScope } from "../../platform/context.ts";
import { hashToken, newToken, sameSecret } from "../../platform/crypto/token.ts";
import { type AuthorizationRequest, refusalAt } from "./authorization.ts";
import { issuerOf } from "./metadata.ts";
import { ConsentProblem, OAuthProblem } from "./problem.ts";
import * as queries from "./queries.ts";
import { answerAt, hostOf } from "./redirects.ts";

/** Lifetimes of a connection that the form offers, days. */
export const lifetimes = [30, 60, 90, 365] as const;
export const usualLifetime = 90;
/** A form is answered within this time. */
const formMs = 30 * minuteMs;
/** OAuth 2.1 draft, section 4.1.2: a short lifetime; a client redeems its code at once. */
const codeMs = minuteMs;

/** The signed field of a consent form. */
interface Form {
  /** Each form is answered once. */
  readonly id: string;
  readonly user: string;
  /** The organisation that is connected, and the one of the session. */
  readonly org: string;
  readonly home: string;
  readonly client: string;
  readonly name: string | null;
  readonly to: string;
  readonly state: string | null;
  readonly challenge: string;
  readonly scopes: readonly string[];
  readonly until: number;
}

/** The key is the secret cookie of the session, so only this session can have a valid form. */
const signature = (payload: string, { secret }: BrowserSession): string =>
  createHmac("sha256", secret).update(`consent ${payload}`).digest("base64url");

/** A session without the second factor that its organisation requires grants what it has: scopes that read. */
export const grantable = <S extends string>({ lacksSecondFactor }: Ctx, scopes: readonly S[]): S[] =>
  scopes.filter((scope) => lacksSecondFactor !== true || isReadScope(scope));

/** The value of the signed field of a form for this session. */
export function signedForm(session: BrowserSession, request: AuthorizationRequest): string {
  const { ctx, homeOrgId } = session;
  const form: Form = {
    id: newId(),
    user: ctx.userId,
    org: ctx.orgId,
    home: homeOrgId,
    client: request.client.id,
    name: request.client.name,
    to: request.redirectUri,
    state: request.state,
    challenge: request.challenge,
    scopes: grantable(ctx, request.scopes),
    until: ctx.clock.now() + formMs,
  };
  const payload = Buffer.from(JSON.stringify(form)).toString("base64url");
  return `${payload}.${signature(payload, session)}`;
}

const over = () =>
  new ConsentProblem(
    403,
    "This form is no longer valid",
    "It was changed, already answered, opened more than 30 minutes ago, or belongs to another sign-in. " +
      "Nothing was connected. Start again in the app.",
  );

/** The form of a signed field. Throws ConsentProblem (403) for one that is edited, expired or not of this session. */
export function openForm(session: BrowserSession, field: string): Form {
  const [payload = "", mac = ""] = field.split(".");
  if (!sameSecret(mac, signature(payload, session))) throw over();
  const form = JSON.parse(Buffer.from(payload, "base64url").toString()) as Form;
  const { ctx, homeOrgId } = session;
  if (form.user !== ctx.userId || form.home !== homeOrgId || form.until <= ctx.clock.now()) throw over();
  return form;
}

/** The organisation that a signed field names, before it is verified. */
export function orgIn(field: string): string | null {
  try {
    const { org } = JSON.parse(Buffer.from(field.split(".")[0]!, "base64url").toString()) as { org?: unknown };
    return typeof org === "string" ? org : null;
  } catch {
    return null;
  }
}

/** Choice of the user. */
export interface Choice {
  readonly decision: string;
  /** Lifetime in days, as sent. */
  readonly days: string | null;
  /** Write scopes whose boxes are ticked. */
  readonly ticked: readonly string[];
}

/**
 * Answers a consent form: the address for the browser, with a code or with access_denied. Each form is answered once.
 * Throws ConsentProblem.
 */
export async function answerForm(ctx: Ctx, form: Form, choice: Choice): Promise<string> {
  const offered = grantable(ctx, form.scopes).filter((scope) => !isReadScope(scope));
  if (choice.ticked.some((scope) => !offered.includes(scope))) throw over();
  const days = lifetimes.find((one) => String(one) === choice.days);
  if (choice.decision !== "deny" && days === undefined)
    throw new ConsentProblem(
      400,
      "No such lifetime",
      `A connection lasts ${lifetimes.join(", ")} days. Start again in the app.`,
    );
  return await inTransaction(ctx, async (tx) => {
    if (!(await queries.takeConsent(tx.sql, form.id, new Date(form.until)))) throw over();
    if (days === undefined || choice.decision !== "approve")
      return refusalAt(
        tx.config,
        { redirectUri: form.to, state: form.state },
        new OAuthProblem("access_denied", "The user denied the request."),
      );
    const scopes = form.scopes.filter((scope) => isReadScope(scope) || choice.ticked.includes(scope));
    const code = await issueCode(tx, form, scopes, days);
    return answerAt(form.to, { code, state: form.state, iss: issuerOf(tx.config) });
  });
}

async function issueCode(tx: Ctx, form: Form, scopes: readonly string[], days: number): Promise<string> {
  const now = tx.clock.now();
  // A client about to expire has a day to redeem the code.
  if (!(await queries.keepClient(tx.sql, form.client, new Date(now + dayMs))))
    throw new ConsentProblem(400, "Unknown app", "The registration of the app has expired. Start again in the app.");
  const code = newToken("");
  const connectionId = newId();
  await queries.insertCode(tx.sql, {
    code_hash: hashToken(code),
    client_id: form.client,
    user_id: tx.userId,
    org_id: tx.orgId,
    connection_id: connectionId,
    redirect_uri: form.to,
    challenge: form.challenge,
    scopes: [...scopes],
    audience: tx.config.mcp.resource_uri,
    lifetime_days: days,
    created_at: new Date(now),
    expires_at: new Date(now + codeMs),
  });
  await record(tx, {
    resourceId: connectionId,
    after: { name: form.name, redirect_host: hostOf(form.to), scopes, lifetime_days: days },
  });
  return code;
}
