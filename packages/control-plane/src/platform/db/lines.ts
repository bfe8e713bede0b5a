import type { Paging } from "./client/sql.ts";

/*
 * Lists whose lines are of two tables: causes that several members share, and members that are alone. Both are sorted
 * by a rank, 0 first; within a rank causes stand before members.
 */

/** The parts of both tables that a page of the list has. */
export interface LinePage {
  readonly causes: Paging;
  readonly members: Paging;
}

/** The page of a list with so many causes and so many members of each rank. */
export function linePage(causes: readonly number[], members: readonly number[], { limit, offset }: Paging): LinePage {
  const page = { causes: { limit: 0, offset: 0 }, members: { limit: 0, offset: 0 } };
  let begin = 0;
  for (let rank = 0; rank < Math.max(causes.length, members.length); rank++)
    for (const [part, count] of [
      [page.causes, causes[rank] ?? 0],
      [page.members, members[rank] ?? 0],
    ] as const) {
      const before = Math.min(count, Math.max(0, offset - begin));
      part.offset += part.limit === 0 ? before : 0;
      part.limit += Math.max(0, Math.min(count, offset + limit - begin) - before);
      begin += count;
    }
  return page;
}

/** Causes and members of a page as one list, in its order. */
export function inLines<C extends { rank: number }, M>(
  causes: readonly C[],
  members: readonly M[],
  rankOf: (member: M) => number,
): ({ rank: number; cause: C; member: null } | { rank: number; cause: null; member: M })[] {
  const lines = [
    ...causes.map((cause) => ({ rank: cause.rank, cause, member: null })),
    ...members.map((member) => ({ rank: rankOf(member), cause: null, member })),
  ];
  return lines.sort((a, b) => a.rank - b.rank);
}
