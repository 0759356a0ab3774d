// The panel under the bell closes like a menu: by Escape, and by a click elsewhere. Everything else is a <details>.
export function startAlarms() {
  const alarms = document.getElementById('alarms');
  document.addEventListener('click', (event) => {
    if (alarms.open && !alarms.contains(event.target)) alarms.open = false;
  });
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || !alarms.open) return;
    alarms.open = false;
    alarms.querySelector('summary').focus();
  });
}
