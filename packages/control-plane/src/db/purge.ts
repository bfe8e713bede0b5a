/** Few enough that no statement holds its locks for long, nor meets the statement timeout. */
const batch = 5_000;

/** Deletes in batches until there is no more: `step` deletes up to so many rows and says how many went. Returns how many that were. */
export async function deleteInBatches(step: (limit: number) => Promise<number>, limit = batch): Promise<number> {
  for (let total = 0; ;) {
    const gone = await step(limit);
    total += gone;
    if (gone < limit) return total;
  }
}
