import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { Route } from "@statusmesh/control-plane/platform/http/route";
import { errorCodes } from "@statusmesh/shared/errors";
import { newId } from "@statusmesh/shared/ids";
import type { Answer } from "../harness/api.ts";
import { nameOf, routes } from "./declared.ts";
import type { Caller } from "./isolation/callers.ts";
import { type IdPlace, idsOf } from "./isolation/ids.ts";
import { openMatrix } from "./isolation/matrix.ts";
import { ask, comparable } from "./isolation/requests.ts";
import { afterAuthentication, missingScope, outcomeOf, type Outcome, type Whose } from "./isolation/rules.ts";
import { openSnapshots } from "./isolation/snapshot.ts";

/*
 * Every tenant route, called by each caller with own, foreign and absent ids. The expected reply is derived from the
 * declarations (isolation/rules.ts). A foreign id is answered byte for byte like an absent one, and a refused request
 * changes no row.
 */

const { sql, homes, callers, planted } = await openMatrix(t);
const snapshots = await openSnapshots(sql);

/** One request of the matrix. */
interface Cell {
  caller: Caller;
  route: Route;
  places: readonly IdPlace[];
  whose: readonly Whose[];
  /** Organisation that owns the foreign things of this request. */
  foreign?: Caller["home"];
  /** Sends the ids in upper case, which name the same things. */
  capitals?: boolean;
}

/** The ids of a cell. Own things are created again where the request is allowed and changes them. */
async function idsFor(
  { caller, route, places, whose, foreign = homes.other }: Cell,
  outcome: Outcome,
): Promise<string[]> {
  // Callers in the deleted organisation name that organisation.
  const own = await planted.ids(
    places,
    caller.home,
    outcome === "granted" && route.method !== "GET" && !(caller.deleted && places[0]?.thing === "org"),
  );
  const theirs = whose.includes("foreign") ? await planted.ids(places, foreign, false) : [];
  return whose.map((one, at) =>
    one === "own"
      ? own[at]!
      : one === "foreign"
        ? theirs[at]!
        : places[at]!.thing === "region"
          ? `r-${newId()}`
          : newId(),
  );
}

function wanted(route: Route, outcome: Outcome): { status: number; code?: string } {
  const code = outcome === "granted" ? afterAuthentication[nameOf(route)] : outcome;
  if (code !== undefined) return { status: errorCodes[code].status, code };
  const statuses = Object.keys(route.replies);
  // A report of several targets is answered with 200, that of one with 201.
  return { status: Number(statuses.find((status) => status === "201") ?? statuses[0]) };
}

let asked = 0;
/** Refused requests since the last snapshot of the database; none may have changed a row. */
let refused: string[] = [];
let before = "";

/** Granted changes since the last snapshot of an organisation that none of them concerns. */
let granted: string[] = [];
let bystander = { orgId: "", rows: "" };

/** Compares the database with the snapshot before the refused requests; later fixtures are created after it. */
async function nothingChanged(t: Test): Promise<void> {
  if (refused.length > 0)
    t.equal(await snapshots.whole(), before, `not a row has changed by any of: ${refused.join("; ")}`);
  refused = [];
}

/** The same for the granted changes and the rows of the organisation beside them. */
async function bystanderUnchanged(t: Test): Promise<void> {
  if (granted.length > 0)
    t.equal(
      await snapshots.of(bystander.orgId),
      bystander.rows,
      `nothing of anybody else's has changed by any of: ${granted.join("; ")}`,
    );
  granted = [];
}

/** Takes the snapshot of an organisation beside a change that is granted, unless there is one from before. */
async function watchBystander(t: Test, orgId: string, title: string): Promise<void> {
  if (orgId !== bystander.orgId) await bystanderUnchanged(t);
  if (granted.push(title) === 1) bystander = { orgId, rows: await snapshots.of(orgId) };
}

async function ended(t: Test): Promise<void> {
  await nothingChanged(t);
  await bystanderUnchanged(t);
}

async function check(t: Test, cell: Cell): Promise<{ answer: Answer; ids: string[] }> {
  const { caller, route, places, whose } = cell;
  const outcome = outcomeOf(
    route,
    caller,
    places.map((place, at) => ({ ...place, whose: whose[at]! })),
  );
  const named = whose.length === 0 ? "" : `, ids ${whose.join(" and ")}`;
  const title = `${nameOf(route)} by ${caller.title}${named}${cell.capitals ? " in capitals" : ""}`;
  const planned = await idsFor(cell, outcome);
  const ids = planned.map((id, at) => (cell.capitals && places[at]!.thing !== "region" ? id.toUpperCase() : id));
  const writes = route.method !== "GET";
  const changes = writes && outcome === "granted";
  if (changes) {
    await nothingChanged(t);
    await watchBystander(t, (caller.home.orgId === homes.other.orgId ? homes.acme : homes.other).orgId, title);
  } else if (writes && refused.push(title) === 1) before = await snapshots.whole();

  const answer = await ask(caller.client, route, places, ids);
  asked++;
  const { status, code } = wanted(route, outcome);
  matchObject(
    t,
    { status: answer.status, code: answer.body?.error?.code ?? undefined },
    { status, code },
    `${title}: ${answer.text.slice(0, 200)}`,
  );
  if (outcome === "INSUFFICIENT_SCOPE")
    t.equal(answer.body?.error?.details?.scope, missingScope(route, caller), `${title}: the scope that is missing`);
  if (caller.deleted && outcome === "granted")
    await sql`
      update orgs set deleted_at = now() where deleted_at is null
        and id in (select org_id from memberships where user_id = ${caller.home.ownerId})`;
  return { answer, ids };
}

/** Sends the foreign id and then an absent one: the replies are equal byte for byte. */
async function checkTwins(t: Test, cell: Omit<Cell, "whose">, shape: (whose: Whose) => Whose[]): Promise<void> {
  const [foreign, absent] = [
    await check(t, { ...cell, whose: shape("foreign") }),
    await check(t, { ...cell, whose: shape("absent") }),
  ];
  t.strictSame(
    comparable(foreign.answer, foreign.ids),
    comparable(absent.answer, absent.ids),
    `${nameOf(cell.route)} by ${cell.caller.title}: ${shape("foreign").join(" and ")} like absent`,
  );
}

const tenantRoutes = routes.filter(({ auth }) => auth === "tenant");

/** Routes that callers of a deleted organisation may call. */
const answersGone = (route: Route, caller: Caller): boolean =>
  outcomeOf(
    route,
    caller,
    idsOf(route).map((place) => ({ ...place, whose: "own" })),
  ) === "granted";

for (const [turn, route] of tenantRoutes.entries()) {
  /** One of those that are refused, or served, before the route is looked at; each in its turn. */
  const oneOf = (all: readonly Caller[]): Caller => all[turn % all.length]!;
  t.test(nameOf(route), async (t) => {
    const places = idsOf(route);
    planted.beforeMaking = async ({ orgId }) => {
      await nothingChanged(t);
      if (orgId === bystander.orgId) await bystanderUnchanged(t);
    };
    const own: Whose[] = places.map(() => "own");
    const { owner, member, viewer, bound, outsider, elsewhere, intruders, ofGone, without, only } = callers;
    const all = { route, places };

    for (const caller of [owner, member, ...(route.scope === null ? [] : [only[route.scope]])])
      await check(t, { ...all, caller, whose: own });
    if (places.length > 0) await check(t, { ...all, caller: owner, whose: own, capitals: true });
    // New things below an organisation path belong to another organisation, which only the owner and the member reach.
    if (places[0]?.thing !== "org" || route.method === "GET")
      for (const caller of [bound, viewer]) await check(t, { ...all, caller, whose: own });
    // A snapshot serves refusals that follow one another.
    const gone = ofGone.some((caller) => answersGone(route, caller)) ? ofGone : [oneOf(ofGone)];
    for (const caller of [...gone, oneOf(intruders)]) await check(t, { ...all, caller, whose: own });
    // A token with the route's scope alone lacks every other one; of a route without a scope, one token says as much.
    const lacking = without.filter((caller) => missingScope(route, caller) !== null);
    const enough =
      route.scope !== null && missingScope(route, only[route.scope]) === null
        ? undefined
        : without.find((caller) => missingScope(route, caller) === null);
    for (const caller of enough === undefined ? lacking : [...lacking, enough]) {
      // Where the scope is missing, an absent id tests as much as an own one and needs no fixture.
      await check(t, {
        ...all,
        caller,
        whose: route.method === "GET" || missingScope(route, caller) !== null ? own : places.map(() => "absent"),
      });
    }

    if (places.length === 0) return await ended(t);
    for (const caller of [owner, oneOf([member, bound]), outsider]) {
      const foreign = caller === outsider ? homes.acme : homes.other;
      for (const [at, place] of places.entries()) {
        const shape = (one: Whose) => places.map((_, other) => (other === at ? one : "own"));
        if (place.thing === "region") await check(t, { ...all, caller, whose: shape("absent") });
        else await checkTwins(t, { ...all, caller, foreign }, shape);
      }
    }
    // With one id, the outsider has sent these above.
    for (const caller of places.length === 1 && places[0]!.thing !== "region" ? [elsewhere] : [outsider, elsewhere]) {
      await checkTwins(t, { ...all, caller, foreign: homes.acme }, (one) =>
        places.map(({ thing }) => (thing === "region" ? "own" : one)),
      );
    }
    await ended(t);
  });
}

t.test("the matrix is as large as it should be", (t) => {
  t.ok(asked > tenantRoutes.length * 12, `${asked} requests over ${tenantRoutes.length} routes`);
  t.comment(`${asked} requests`);
  t.end();
});
