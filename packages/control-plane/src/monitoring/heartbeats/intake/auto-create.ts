import { AppError } from "@statusmesh/shared/errors";
import { isAddress, keyOf, type PingRequest } from "@statusmesh/shared/pings/address";
import { dayMs, hourMs, utcDay } from "@statusmesh/shared/time";
import { PlanRefusal } from "../../../access/plans/service.ts";
import { asSystem, inTransaction, type System } from "../../../platform/context.ts";
import { countCreation, isOrg } from "../address-queries.ts";
import { createReporting } from "../../targets/write/service.ts";

/** Monitors that one ping key may create on a UTC day. */
const perDay = 100;
/** What healthchecks gives a check that a ping creates. */
const made = { period: dayMs, grace: hourMs };

/** `there`: another ping was faster. `off`: this ping key may create nothing. */
export type Created = "created" | "there" | "limit" | "off";

class DayFull extends Error {}

/** Creates the monitor of a ping with `create=1`, where `heartbeats.auto_create` names its ping key. */
export function openAutoCreate(
  system: System,
): (asked: PingRequest, from: { ip: string; userAgent: string }) => Promise<Created> {
  const orgs = new Map(
    system.config.heartbeats.auto_create
      .split(",")
      .map((pair) => pair.trim().split(":") as [string, string])
      .filter(([key]) => key !== ""),
  );
  return async ({ address, value, mayCreate }, from) => {
    const [key = "", name = ""] = value.split("/");
    const orgId = orgs.get(key);
    if (!mayCreate || address !== "healthchecks_slug" || orgId === undefined || !isAddress(address, value))
      return "off";
    if (!(await isOrg(system.sql, orgId))) return "off";
    try {
      await inTransaction(asSystem(system, orgId, "POST /ping/{key}/{slug}", from), async (tx) => {
        const day = utcDay(tx.clock.now());
        if (!(await countCreation(tx.sql, keyOf(key), day, perDay))) throw new DayFull();
        await createReporting(tx, { name, address: { kind: address, value }, ...made });
      });
      return "created";
    } catch (error) {
      if (error instanceof DayFull || error instanceof PlanRefusal) return "limit";
      if (error instanceof AppError && error.code === "HEARTBEAT_ADDRESS_TAKEN") return "there";
      throw error;
    }
  };
}
