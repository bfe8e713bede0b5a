/**
 * Long work in slices that never block the event loop: one slice of about 5 ms per turn of the loop, shared by all
 * requests in FIFO order.
 */

const sliceMs = 5;
/** Lists up to this length run without slices: waiting would cost more. */
const shortList = 20;

const waiting: (() => void)[] = [];

function startNext(): void {
  waiting.shift()?.();
  if (waiting.length > 0) setImmediate(startNext);
}

const nextTurn = (): Promise<void> =>
  new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(startNext);
  });

/** The slices of one piece of long work. */
export interface Turns {
  /** True when the slice is over and {@link next} is due. */
  over(): boolean;
  /** Waits for the next slice. */
  next(): Promise<void>;
}

/** True once nobody waits for the result of the work any more. */
export type IsGone = () => boolean;

/** The client of a request has closed its connection. */
export class ClientGone extends Error {
  override readonly name = "ClientGone";
}

/** Waits for the first slice of a piece of long work. With `isGone` the work ends with {@link ClientGone}. */
export async function takeTurns(isGone?: IsGone): Promise<Turns> {
  let ends = 0;
  const turns = {
    over: () => performance.now() >= ends,
    async next() {
      await nextTurn();
      if (isGone?.() === true) throw new ClientGone("the client has closed the connection");
      ends = performance.now() + sliceMs;
    },
  };
  await turns.next();
  return turns;
}

/** `list.map(work)` in slices. An error of `work` ends it. */
export async function mapInTurns<T, R>(
  list: readonly T[],
  work: (item: T, at: number) => R,
  isGone?: IsGone,
): Promise<R[]> {
  if (list.length <= shortList) return list.map(work);
  const turns = await takeTurns(isGone);
  const made: R[] = [];
  for (const [at, item] of list.entries()) {
    if (turns.over()) await turns.next();
    made.push(work(item, at));
  }
  return made;
}

/** Runs work that yields between its steps, in slices. */
export async function inTurns<T>(work: Generator<void, T>, isGone?: IsGone): Promise<T> {
  const turns = await takeTurns(isGone);
  for (let at = 0; ; at++) {
    // To ask for the time takes as long as a step.
    if (at % shortList === 0 && turns.over()) await turns.next();
    const { done, value } = work.next();
    if (done === true) return value;
  }
}

/** Like {@link mapInTurns}, for work of microseconds without a value: lists of hundreds run without slices. */
export async function forEachInTurns<T>(list: readonly T[], work: (item: T) => void): Promise<void> {
  if (list.length <= 10 * shortList) return list.forEach((item) => work(item));
  const turns = await takeTurns();
  for (let at = 0; at < list.length; at++) {
    // To ask for the time takes as long as such work.
    if (at % shortList === 0 && turns.over()) await turns.next();
    work(list[at]!);
  }
}

/** The list in portions of a size. */
export function* portionsOf<T>(list: readonly T[], size: number): Generator<T[]> {
  for (let at = 0; at < list.length; at += size) yield list.slice(at, at + size);
}
