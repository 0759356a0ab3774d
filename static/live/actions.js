// Buttons: a POST with the page's token, an answer at once, and words about what came of it. Stop is tried again by itself.
const HOLD_MS = 600; // on a touch screen Stop is pressed and held
const PATIENCE_MS = 8000; // for one answer
const PER_ROBOT_MS = 10; // and for each robot that it is about: five thousand holds are not written in 8 s
const AGAIN_MS = [300, 1000, 2000]; // a stop that did not reach the server; it may arrive twice without harm

export function tell(text, problem = false, link = '') {
  const told = document.getElementById('told');
  told.textContent = text;
  told.classList.toggle('problem', problem);
  if (!link) return;
  const anchor = document.createElement('a');
  anchor.href = link;
  anchor.textContent = 'Sign in';
  told.append(' ', anchor);
}

export function ask(question, yes) {
  const dialog = document.getElementById('ask');
  const card = document.activeElement.closest?.('.card'); // its button may be gone when the dialog closes
  dialog.querySelector('p').textContent = question;
  dialog.querySelector('[value=yes]').textContent = yes;
  dialog.returnValue = 'no';
  dialog.showModal();
  return new Promise((resolve) => {
    const closed = () => {
      if (card && document.activeElement === document.body) document.getElementById(card.id)?.focus();
      resolve(dialog.returnValue === 'yes');
    };
    dialog.addEventListener('close', closed, { once: true });
  });
}

// the cookie is always the newest: after signing in elsewhere a page that was open before still works
function token(form) {
  const name = `${form.dataset.cookie}=`;
  const cookie = document.cookie.split('; ').find((part) => part.startsWith(name));
  return cookie ? decodeURIComponent(cookie.slice(name.length)) : form.elements.csrfmiddlewaretoken.value;
}

async function once(url, fields, robots) {
  const body = new URLSearchParams(fields);
  const headers = { Accept: 'application/json', 'X-CSRFToken': token(document.getElementById('act')) };
  const response = await fetch(url, { method: 'POST', body, headers, signal: AbortSignal.timeout(PATIENCE_MS + robots * PER_ROBOT_MS) });
  const type = response.headers.get('content-type') ?? '';
  const answer = type.startsWith('application/json') ? await response.json() : { text: `The server answered ${response.status}.` };
  return { ok: response.ok, status: response.status, robots: {}, ...answer };
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// `what` is the word on the button, for what is said when nothing came of it
export async function send(what, url, fields = {}, waits = [], robots = 1) {
  for (let n = 0; ; n += 1) {
    try {
      const answer = await once(url, fields, robots);
      if (answer.status < 500 || n >= waits.length) {
        const signedOut = answer.status === 401;
        tell(answer.text, !answer.ok, signedOut ? document.getElementById('act').dataset.signIn : '');
        return answer;
      }
    } catch {
      if (n >= waits.length) {
        tell(`“${what}” did not reach the server. Press it again.`, true);
        return { ok: false, status: 0, robots: {} };
      }
    }
    tell(`“${what}” has not reached the server yet; trying again…`, true);
    await pause(waits[n]);
  }
}

export const sendStop = (what, url, fields, robots) => send(what, url, fields, AGAIN_MS, robots);

// what a press on a button with an id of its own does, instead of the plain POST
const special = new Map();
export const onPress = (id, run) => special.set(id, run);

export async function act(button) {
  if (document.body.classList.contains('stale') && button.classList.contains('starts')) {
    tell('What you see is old. Wait until the page is live again, or do it in Admin.', true);
    return;
  }
  if (button.dataset.ask && !(await ask(button.dataset.ask, button.dataset.yes))) return;
  const { id } = button;
  const label = button.firstChild;
  const was = label.textContent;
  button.classList.add('doing');
  if (button.dataset.doing) label.textContent = button.dataset.doing;
  const run = special.get(id);
  const sender = button.classList.contains('stop') ? sendStop : send;
  const { ok } = run ? await run(button) : await sender(was, button.formAction);
  if (ok && !run) return; // a push brings the new face
  const now = document.getElementById(id); // a push may have replaced it
  if (now?.classList.contains('doing')) {
    now.classList.remove('doing');
    now.firstChild.textContent = was;
  }
}

function holdToStop() {
  let holding = 0;
  let held = false; // long enough: the click that follows says nothing more
  const stopOf = (event) => event.target.closest?.('.act.stop');
  const release = () => {
    clearTimeout(holding);
    holding = 0;
    document.querySelectorAll('.held').forEach((button) => button.classList.remove('held'));
  };
  document.addEventListener('pointerdown', (event) => {
    const button = stopOf(event);
    if (!button || event.pointerType !== 'touch') return;
    button.classList.add('held');
    held = false;
    holding = setTimeout(() => {
      release();
      held = true;
      act(button);
    }, HOLD_MS);
  });
  for (const name of ['pointerup', 'pointercancel', 'pointerleave']) document.addEventListener(name, release);
  document.addEventListener('contextmenu', (event) => {
    if (stopOf(event) && matchMedia('(hover: none)').matches) event.preventDefault();
  });
  document.addEventListener(
    'click',
    (event) => {
      // a short touch on Stop does nothing but say how
      const button = event.pointerType === 'touch' && stopOf(event);
      if (!button) return;
      event.preventDefault();
      event.stopPropagation();
      if (!held) tell('Press and hold to stop.');
      held = false;
    },
    true,
  );
}

export function startActions() {
  document.getElementById('act').addEventListener('submit', (event) => {
    event.preventDefault();
    if (event.submitter) act(event.submitter);
  });
  document.addEventListener('click', (event) => {
    const button = event.target.closest?.('button.act[type=button]');
    if (button) act(button);
  });
  holdToStop();
}
