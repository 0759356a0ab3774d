// Rows of a list in another order: drag the handle with mouse, pen or finger, or press arrow keys on it.
const HANDLE = "[data-handle]";

export function watchOrder(list, rows, { step, dropped }) {
  let dragged = null;

  list.addEventListener("keydown", (event) => {
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const handle = event.target.closest(HANDLE);
    const row = event.target.closest("li");
    if (!by || !row || !(handle || event.altKey)) return;
    event.preventDefault();
    step(row, by);
    event.target.focus(); // a moved node loses it
  });

  list.addEventListener("pointerdown", (event) => {
    const handle = event.target.closest(HANDLE);
    if (!handle || event.button) return;
    dragged = handle.closest("li");
    handle.setPointerCapture(event.pointerId);
    dragged.classList.add("dragged");
  });

  list.addEventListener("pointermove", (event) => {
    if (!dragged) return;
    for (const other of rows()) {
      if (other === dragged) continue;
      const { top, height } = other.getBoundingClientRect();
      const above = dragged.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING;
      if (above && event.clientY > top + height / 2) shift(event, other, "after");
      else if (!above && event.clientY < top + height / 2) return shift(event, other, "before");
    }
  });

  function shift(event, other, where) {
    const handle = event.target.closest(HANDLE);
    other[where](dragged);
    handle?.setPointerCapture?.(event.pointerId); // a moved node loses the pointer
  }

  for (const end of ["pointerup", "pointercancel"]) {
    list.addEventListener(end, () => {
      if (!dragged) return;
      const row = dragged;
      dragged = null;
      row.classList.remove("dragged");
      dropped(row);
    });
  }
}
