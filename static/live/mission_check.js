// While a mission is drawn up the server checks it as it will when it is saved, and says what is wrong next to the field.
// Also: nothing that was typed is lost by leaving the page unasked.
import { renew } from "./sending.js";

const WAIT_MS = 350;
const EVERYWHERE = ["robot", "site"]; // a change here concerns the commands and places of all steps

export function startChecking(form) {
  const saysRobot = document.getElementById("robot-says");
  const saysCheck = document.getElementById("check-says");
  const usual = saysCheck?.textContent;
  const touched = new Set();
  let timer, asked, saved = form.hasAttribute("data-sent-back") ? null : content();

  function content() {
    return new URLSearchParams([...new FormData(form)].filter(([name]) => name !== "csrfmiddlewaretoken")).toString();
  }

  const holderOf = (list) => list.closest(".step-input, .form-row");
  const listFor = (name) => form.querySelector(`[data-errors="${CSS.escape(name)}"]`);

  function put(list, texts) {
    const lines = texts.map((text) => Object.assign(document.createElement("li"), { textContent: text }));
    if (list.textContent.trim() === texts.join("").trim()) return;
    list.replaceChildren(...lines);
    const holder = holderOf(list);
    holder.classList.toggle("errors", texts.length > 0);
    const input = form.elements[list.dataset.errors];
    if (input?.setAttribute) texts.length ? input.setAttribute("aria-invalid", "true") : input.removeAttribute("aria-invalid");
  }

  function show({ problems, robot }) {
    for (const list of form.querySelectorAll("[data-errors]")) {
      const name = list.dataset.errors;
      const texts = problems.filter((p) => p.name === name).map((p) => p.text);
      put(list, touched.has(name) || list.children.length ? texts : []);
    }
    saysRobot.textContent = robot;
    const loose = problems.filter((p) => !listFor(p.name) && touched.size > 1).map((p) => p.text);
    saysCheck.textContent = loose.length ? loose.join(" ") : usual;
    saysCheck.classList.toggle("bad-text", loose.length > 0);
  }

  async function check() {
    if (!form.dataset.check) return;
    renew(form);
    asked?.abort();
    asked = new AbortController();
    try {
      const answer = await fetch(form.dataset.check, { method: "POST", body: new FormData(form), signal: asked.signal });
      if (answer.ok && !answer.redirected) show(await answer.json());
    } catch {} // no answer: it is checked when it is saved
  }

  function later(event) {
    const name = event.target.name;
    if (name) touched.add(name);
    if (EVERYWHERE.includes(name)) {
      for (const input of form.querySelectorAll('[name$="-command"], [name$="-place"]')) if (input.value) touched.add(input.name);
    }
    clearTimeout(timer);
    timer = setTimeout(check, WAIT_MS);
  }

  form.addEventListener("input", later);
  form.addEventListener("change", later);
  form.addEventListener("focusout", later);
  if (form.hasAttribute("data-sent-back")) check();

  window.addEventListener("beforeunload", (event) => {
    if (!form.dataset.sent && content() !== saved) event.preventDefault();
  });
}
