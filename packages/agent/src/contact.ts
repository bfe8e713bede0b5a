/** How it went to talk to the control plane in one way, and when. Times are Unix ms on its clock. */
export class Contact {
  succeededAt: number | null = null;
  /** The last failure, also when it is over. */
  failure: { at: number; message: string } | null = null;

  succeeded(now: number): void {
    this.succeededAt = Math.round(now);
  }

  failed(now: number, message: string): void {
    this.failure = { at: Math.round(now), message };
  }
}
