// What was typed is not lost with the session: every form sends the newest token, and one that was open for long asks first
// whether its sender is still signed in. A double click does its work once. Stop and cancel ask nothing and always go.
const OLD_MS = 60_000; // a page younger than this is sent as it is
const ASK_MS = 8000;
const SENT_MS = 10_000; // so long the answer may take before a form may be sent again
const AT_ONCE = /\/(stop|stop_all|cancel)\/$/; // where it goes
const MANY_AT_ONCE = /^(stop|cancel)/; // what is done to the rows of a list
const about = document.querySelector('meta[name="session"]').dataset;
const opened = performance.now();

// the cookie is always the newest: after signing in elsewhere a page that was open before still works
export function renew(form) {
  const name = `${about.cookie}=`;
  const cookie = document.cookie.split("; ").find((part) => part.startsWith(name));
  if (cookie) form.elements.csrfmiddlewaretoken.value = decodeURIComponent(cookie.slice(name.length));
}

// a button without an address of its own says the page's, and a field may be called "action"
const address = (form, button) => button?.getAttribute("formaction") ?? form.getAttribute("action") ?? "";
const isUrgent = (form, button) => AT_ONCE.test(address(form, button)) || MANY_AT_ONCE.test(form.elements.action?.value);
const wasTyped = (input) => input.type !== "hidden" && "defaultValue" in input && input.value !== input.defaultValue;

async function whyNot() {
  try {
    const answer = await fetch(about.ask, { method: "HEAD", redirect: "manual", signal: AbortSignal.timeout(ASK_MS) });
    if (answer.ok) return "";
    return answer.type === "opaqueredirect" ? "You are signed out." : `Drover answers ${answer.status}.`;
  } catch {
    return "Drover does not answer at the moment.";
  }
}

function say(button, why) {
  const old = document.getElementById("not-sent");
  const note = old ?? Object.assign(document.createElement("p"), { id: "not-sent", className: "errornote", role: "alert" });
  note.textContent = `Not sent: ${why} What you typed is still here. `;
  if (why.startsWith("You")) {
    note.append(Object.assign(document.createElement("a"), { href: about.signIn, target: "_blank", textContent: "Sign in in another tab" }), ", then press the button again.");
  } else note.append("Press the button again in a moment.");
  button.before(note);
  note.scrollIntoView({ block: "nearest" });
}

function halt(event) {
  event.preventDefault();
  event.stopImmediatePropagation();
}

const marks = new WeakMap(); // form → the timer that ends its mark

function mark(form) {
  unmark(form);
  form.dataset.sent = "1";
  marks.set(form, setTimeout(unmark, SENT_MS, form));
}

function unmark(form) {
  clearTimeout(marks.get(form));
  delete form.dataset.sent;
}

document.addEventListener(
  "submit",
  async (event) => {
    const { target: form, submitter } = event;
    if (form.method !== "post" || !form.elements.csrfmiddlewaretoken) return;
    renew(form);
    const asked = form.dataset.asked;
    delete form.dataset.asked;
    if (asked || isUrgent(form, submitter)) return;
    if (form.dataset.sent) return halt(event);
    if (performance.now() - opened < OLD_MS || ![...form.elements].some(wasTyped)) return;
    halt(event);
    mark(form);
    const why = await whyNot();
    unmark(form);
    renew(form);
    if (why) return say(submitter ?? form.querySelector("button, [type=submit]"), why);
    form.dataset.asked = "1";
    form.requestSubmit(submitter);
    delete form.dataset.asked; // the browser may have held it back, for a field that became wrong meanwhile
  },
  true,
);

// last of all: what somebody else has held back, because a field is wrong, was not sent
window.addEventListener("submit", (event) => {
  const { target: form, submitter } = event;
  if (!event.defaultPrevented && form.method === "post" && !isUrgent(form, submitter)) mark(form);
});

window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) unmark(form);
});
