import { call } from "./api.js";

/** Largest page of a list, and how many things one bulk request may name. */
const pageSize = 1000;
const most = 10_000;

/** The items of all pages of a list that `wanted` keeps, at most as many as one bulk request may name. */
export async function collect(path, wanted = () => true) {
  const items = [];
  const address = new URL(path, location.origin);
  for (let offset = 0; items.length < most; offset += pageSize) {
    address.searchParams.set("limit", pageSize);
    address.searchParams.set("offset", offset);
    const answer = await call("GET", address.pathname + address.search);
    if (!answer.ok) return answer;
    items.push(...answer.data.items.filter(wanted));
    if (offset + pageSize >= answer.data.total) break;
  }
  return { ok: true, items: items.slice(0, most) };
}
