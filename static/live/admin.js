// Small comforts of the admin pages; everything works without them.

for (const button of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) break;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
  });
}

// One unfolded question at a time; Escape folds it.
document.addEventListener(
  "toggle",
  (event) => {
    if (!event.target.matches?.("details.ask[open]")) return;
    for (const other of document.querySelectorAll("details.ask[open]")) if (other !== event.target) other.open = false;
    event.target.querySelector("input[type=text], button")?.focus();
  },
  true,
);
document.addEventListener("keydown", (event) => {
  const open = event.key === "Escape" && document.querySelector("details.ask[open]");
  if (!open) return;
  open.open = false;
  open.querySelector("summary").focus();
});
