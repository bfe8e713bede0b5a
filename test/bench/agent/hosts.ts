/** Loopback addresses to spread connections over, so that ports in TIME_WAIT do not become what is measured. */
export const hosts: readonly string[] = Array.from({ length: 64 }, (_, i) => `127.0.0.${i + 1}`);
