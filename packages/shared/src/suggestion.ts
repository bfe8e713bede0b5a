/** ` Did you mean "url"?` when a known name is one slip away. */
export function suggestion(wrong: string, known: readonly string[]): string {
  const near = known.find(
    (key) =>
      key.toLowerCase().replaceAll(/[_-]/g, "") === wrong.toLowerCase().replaceAll(/[_-]/g, "") || oneSlip(wrong, key),
  );
  return near === undefined ? "" : ` Did you mean "${near}"?`;
}

function oneSlip(a: string, b: string): boolean {
  if (Math.abs(a.length - b.length) > 1 || Math.min(a.length, b.length) < 3) return false;
  let start = 0;
  while (start < a.length && a[start] === b[start]) start++;
  return (
    a.slice(start + 1) === b.slice(start + 1) ||
    a.slice(start + 1) === b.slice(start) ||
    a.slice(start) === b.slice(start + 1)
  );
}
