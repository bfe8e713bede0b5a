/** Times and last error of one kind of request to the control plane. Times are Unix ms on its clock. */
export class Contact {
  succeededAt: number | null = null;
  /** The last failure, also after a later success. */
  failure: { at: number; message: string } | null = null;

  succeeded(now: number): void {
    this.succeededAt = Math.round(now);
  }

  failed(now: number, message: string): void {
    this.failure = { at: Math.round(now), message };
  }
}
