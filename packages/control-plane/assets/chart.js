// Values at the pointer. The numbers come from the table behind the disclosure, so they are sent once.

function readout(box) {
  let note = box.querySelector(".readout");
  if (!note) {
    note = document.createElement("p");
    note.className = "readout xs";
    note.setAttribute("aria-hidden", "true");
    box.querySelector(".chartbox").after(note);
  }
  return note;
}

/** Follows the pointer over the charts of the page. */
export function charts() {
  document.addEventListener("pointermove", (event) => {
    const chart = event.target.closest?.(".chart");
    if (!chart) return;
    const box = chart.closest("section");
    const rows = box.querySelectorAll("#latency-table tbody tr");
    if (rows.length === 0) return;
    const { left, width } = chart.getBoundingClientRect();
    const row =
      rows[Math.min(rows.length - 1, Math.max(0, Math.floor(((event.clientX - left) / width) * rows.length)))];
    const [p50, p95, p99, samples] = [...row.querySelectorAll("td")].map((cell) => cell.textContent);
    readout(box).textContent =
      p95 === undefined
        ? `${row.querySelector("th").textContent}: no data`
        : `${row.querySelector("th").textContent}: p50 ${p50}, p95 ${p95}, p99 ${p99}, ${samples} checks`;
  });
}
