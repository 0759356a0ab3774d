// Buttons on cards and rows: a POST with the page's token, an answer at once, and words about what came of it.
const HOLD_MS = 600; // on a touch screen Stop is pressed and held

function tell(text, problem) {
  const told = document.getElementById('told');
  told.textContent = text;
  told.classList.toggle('problem', problem);
}

function ask(question, yes) {
  const dialog = document.getElementById('ask');
  dialog.querySelector('p').textContent = question;
  dialog.querySelector('[value=yes]').textContent = yes;
  dialog.returnValue = 'no';
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'), { once: true });
  });
}

async function post(url) {
  const body = new FormData(document.getElementById('act'));
  const response = await fetch(url, { method: 'POST', body, headers: { Accept: 'application/json' } });
  const type = response.headers.get('content-type') ?? '';
  const text = type.startsWith('application/json') ? (await response.json()).text : `The server answered ${response.status}.`;
  return { ok: response.ok, text };
}

async function act(button) {
  if (document.body.classList.contains('stale') && button.classList.contains('starts')) {
    tell('What you see is old. Wait until the page is live again, or do it in Admin.', true);
    return;
  }
  if (button.dataset.ask && !(await ask(button.dataset.ask, button.dataset.yes))) return;
  const { id } = button;
  const was = button.textContent;
  button.classList.add('doing');
  if (button.dataset.doing) button.textContent = button.dataset.doing;
  try {
    const { ok, text } = await post(button.formAction);
    tell(text, !ok);
    if (ok) return;
  } catch {
    tell(`“${was}” did not reach the server. Press it again.`, true);
  }
  const now = document.getElementById(id); // a push may have replaced it
  if (now?.classList.contains('doing')) {
    now.classList.remove('doing');
    now.textContent = was;
  }
}

export function startActions() {
  document.getElementById('act').addEventListener('submit', (event) => {
    event.preventDefault();
    if (event.submitter) act(event.submitter);
  });
  let holding = 0;
  const board = document.getElementById('board');
  const release = () => {
    clearTimeout(holding);
    holding = 0;
    board.querySelectorAll('.held').forEach((button) => button.classList.remove('held'));
  };
  board.addEventListener('pointerdown', (event) => {
    const button = event.target.closest('.act.stop');
    if (!button || event.pointerType !== 'touch') return;
    button.classList.add('held');
    holding = setTimeout(() => {
      release();
      act(button);
    }, HOLD_MS);
  });
  for (const name of ['pointerup', 'pointercancel', 'pointerleave']) board.addEventListener(name, release);
  board.addEventListener('contextmenu', (event) => {
    if (event.target.closest('.act.stop') && matchMedia('(hover: none)').matches) event.preventDefault();
  });
  board.addEventListener(
    'click',
    (event) => {
      // a short touch on Stop does nothing but say how
      if (event.pointerType === 'touch' && event.target.closest('.act.stop')) {
        event.preventDefault();
        if (!event.target.closest('.doing')) tell('Press and hold to stop.', false);
      }
    },
    true,
  );
}
