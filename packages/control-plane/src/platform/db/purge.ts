/** Keeps locks short and each statement below its time limit. */
const batch = 5_000;

/** Calls `step`, which deletes at most `limit` rows and returns their number, until it deletes fewer. Returns all. */
export async function deleteInBatches(step: (limit: number) => Promise<number>, limit = batch): Promise<number> {
  for (let total = 0; ;) {
    const gone = await step(limit);
    total += gone;
    if (gone < limit) return total;
  }
}
