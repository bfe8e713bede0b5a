import { ask } from "./dom.js";
import { leaveFor } from "./leave.js";

// One monitor is deleted as twenty are: a question, then ten seconds on the list in which it can be undone.

const place = "delete-monitor";

/** The question before monitors are deleted; `what` names them. */
export const deletionQuestion = (what) => `Delete ${what} with results and incidents? You can undo it for 10 seconds.`;

/** Asks, and leaves for the list, which carries the deletion out. */
export async function removeMonitor({ remove, name }) {
  if (!(await ask(deletionQuestion(name), "Delete"))) return;
  sessionStorage.setItem(place, JSON.stringify({ id: remove, at: Date.now() }));
  await leaveFor("/monitors");
}

/** Id of the monitor that another page asked to delete just now; null for none. Taken once. */
export function takeDeletion() {
  const asked = JSON.parse(sessionStorage.getItem(place) ?? "null");
  sessionStorage.removeItem(place);
  return asked !== null && Date.now() - asked.at < 10_000 ? asked.id : null;
}
