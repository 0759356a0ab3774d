// Small comforts of the admin pages; everything works without them.
import "./ages.js";
import "./sending.js";

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

// While something that was asked for is under way (stopping, dispatching), the page asks how it stands, for a minute.
const ASK_EVERY_MS = 1500;
const busy = () => document.querySelector("#content .page-head:not([data-follows]) .said.info");
const disturbs = () => document.hidden || document.querySelector("#content details.ask[open], #content input:focus");
for (let asked = 0; busy() && asked < 40; asked++) {
  await new Promise((resolve) => setTimeout(resolve, ASK_EVERY_MS));
  if (disturbs()) continue;
  const answer = await fetch(location.href).catch(() => null);
  if (!answer?.ok || answer.redirected) continue;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("content");
  if (fresh && !disturbs()) document.getElementById("content").replaceWith(fresh);
}
