import { existsSync } from "node:fs";
import { Socket, type SocketConnectOpts } from "node:net";

/*
 * Loaded into a program before its own code (`--import`), to give it a wrong clock or no network:
 *
 * - SM_TEST_CLOCK_MS: error of its clock. SIGUSR2 steps the clock by SM_TEST_STEP_MS, as a time server does; the
 *   monotonic clock does not change.
 * - SM_TEST_UNPLUGGED: while this file exists, its network is down. 10.99.0.0/16 is that network: the same ports of
 *   this machine.
 */

let shift = Number(process.env["SM_TEST_CLOCK_MS"] ?? 0);
const trueNow = Date.now.bind(Date);
const origin = performance.timeOrigin + shift;
const TrueDate = Date;
globalThis.Date = new Proxy(TrueDate, {
  construct: (target, args: unknown[], self) =>
    Reflect.construct(target, args.length === 0 ? [trueNow() + shift] : args, self) as object,
  get: (target, key) => (key === "now" ? () => trueNow() + shift : (Reflect.get(target, key) as unknown)),
});
Object.defineProperty(performance, "timeOrigin", { get: () => origin });
process.on("SIGUSR2", () => (shift += Number(process.env["SM_TEST_STEP_MS"] ?? 0)));

const unplugged = process.env["SM_TEST_UNPLUGGED"] ?? "";
// oxlint-disable-next-line typescript/unbound-method
const connect = Socket.prototype.connect as (this: Socket, ...args: unknown[]) => Socket;
Socket.prototype.connect = function (this: Socket, ...args: unknown[]): Socket {
  // net.connect passes a list that contains the options.
  const options = (Array.isArray(args[0]) ? args[0][0] : args[0]) as SocketConnectOpts;
  if (unplugged === "" || !("host" in options) || options.host?.startsWith("10.99.") !== true)
    return connect.apply(this, args);
  if (existsSync(unplugged)) {
    process.nextTick(() => this.destroy(Object.assign(new Error("connect ENETUNREACH"), { code: "ENETUNREACH" })));
    return this;
  }
  options.host = "127.0.0.1";
  return connect.apply(this, args);
} as typeof Socket.prototype.connect;
