/**
 * Loopback addresses to spread connections over, so that neither ports in TIME_WAIT nor the agent's limit for each host
 * become what is measured.
 */
const hosts: readonly string[] = Array.from(
  { length: 2000 },
  (_, n) => `127.0.${1 + Math.floor(n / 250)}.${1 + (n % 250)}`,
);

/** Those that the certificate of the https server is for. */
export const certified = hosts.slice(0, 64);

/** The host of the nth check. */
export function hostOf(n: number, secure: boolean): string {
  const among = secure ? certified : hosts;
  return among[n % among.length]!;
}
