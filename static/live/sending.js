// What was typed is not lost with the session: every form sends the newest token, and one that was open for long asks first
// whether its sender is still signed in. Stop and cancel ask nothing.
const OLD_MS = 60_000; // a page younger than this is sent as it is
const ASK_MS = 8000;
const AT_ONCE = /\/(stop|stop_all|cancel)\/$/;
const about = document.querySelector('meta[name="session"]').dataset;
const opened = performance.now();

// the cookie is always the newest: after signing in elsewhere a page that was open before still works
export function renew(form) {
  const name = `${about.cookie}=`;
  const cookie = document.cookie.split("; ").find((part) => part.startsWith(name));
  if (cookie) form.elements.csrfmiddlewaretoken.value = decodeURIComponent(cookie.slice(name.length));
}

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

document.addEventListener(
  "submit",
  async (event) => {
    const { target: form, submitter } = event;
    if (form.method !== "post" || !form.elements.csrfmiddlewaretoken) return;
    renew(form);
    const asked = form.dataset.asked;
    delete form.dataset.asked;
    if (asked || AT_ONCE.test(submitter?.formAction || form.action) || performance.now() - opened < OLD_MS) return;
    if (![...form.elements].some(wasTyped)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    const why = await whyNot();
    renew(form);
    if (why) return say(submitter ?? form.querySelector("button, [type=submit]"), why);
    form.dataset.asked = "1";
    form.requestSubmit(submitter);
  },
  true,
);
