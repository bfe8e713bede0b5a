/**
 * Loopback addresses for the connections: with one, ports in TIME_WAIT or the agent's limit per host would be measured.
 */
const hosts: readonly string[] = Array.from(
  { length: 2000 },
  (_, n) => `127.0.${1 + Math.floor(n / 250)}.${1 + (n % 250)}`,
);

/** Addresses in the certificate of the https server. */
export const certified = hosts.slice(0, 64);

/** The host of the nth check. */
export function hostOf(n: number, secure: boolean): string {
  const among = secure ? certified : hosts;
  return among[n % among.length]!;
}
