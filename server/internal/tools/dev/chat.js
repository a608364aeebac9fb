// The user interface of the demo page. client.js talks to the server.
import { Client } from './client.js';

const $ = id => document.getElementById(id);
const make = (tag, props = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), props);
  element.append(...children);
  return element;
};

// Each tab keeps its name over reloads. A second tab is another user.
let user = '';
try {
  user = sessionStorage.getItem('gyro.user') ?? '';
} catch {
  /* the browser keeps nothing */
}

// In an application, the backend makes the token for the user who has logged in.
async function getToken() {
  const answer = await fetch('/dev/token', { method: 'POST', body: JSON.stringify({ user }) });
  if (!answer.ok) {
    user = ''; // whatever is wrong with it
    throw new Error(await answer.text());
  }
  const { user: name, token } = await answer.json();
  user = name;
  try {
    sessionStorage.setItem('gyro.user', user);
  } catch {
    /* see above */
  }
  return token;
}

const people = new Map(); // by client
let last; // author of the last message, for groups
const log = $('log'),
  list = $('messages');
let atEnd = true; // of the log
let state, away; // away: the timer of a cut connection
const unsent = []; // messages that wait for the connection

// The switch of transports. The query keeps the choice over reloads.
const radios = [...document.querySelectorAll('[name=transport]')];
const radioOf = transport => radios.find(radio => radio.value === transport);
const labelOf = transport => radioOf(transport).labels[0].textContent;
const chosen = radioOf(new URLSearchParams(location.search).get('transport')) ?? radios[0];
let over; // the transport of the last connection

const client = new Client(location.origin, chosen.value, document.body.dataset.channel, getToken, {
  state(name, reason) {
    state = document.body.dataset.state = name;
    $('state').replaceChildren(
      ...{
        connecting: ['Connecting…'],
        connected: [make('span', {}, make('span', { className: 'wide' }, 'Connected as '), user)],
        cut: ['Offline'],
        lost: ['Connection lost, trying again…'],
        refused: [`Refused: ${reason}`],
      }[name],
    );
    $('cut').disabled = name !== 'connected';
    $('banner').hidden = name !== 'cut';
    radioOf(client.transport).checked = true;
    $('over').textContent = labelOf(client.transport);
    if (name === 'cut' || name === 'lost' || name === 'refused') people.clear(); // they come and go unseen now
    showPeople();
    if (name === 'connected') unsent.splice(0).forEach(publish);
  },
  loaded({ missed, back, complete, people: present }) {
    if (client.transport !== client.chosen) divider(`${labelOf(client.chosen)} does not get through, so this is ${labelOf(client.transport)}`);
    const how = client.transport === over ? 'Back again' : `Now over ${labelOf(client.transport)}`;
    over = client.transport;
    if (back && !complete) divider('Some messages were missed: the server does not have them any more');
    if (back && complete && missed.length) divider(`${how}, ${missed.length} ${missed.length === 1 ? 'message' : 'messages'} caught up`);
    if (back && complete && !missed.length) divider(`${how}, nothing was missed`);
    missed.forEach(pub => publication(pub, back));
    people.clear();
    present.forEach(info => people.set(info.client, info));
    showPeople();
  },
  publication: pub => publication(pub, false, new Date()),
  join(info) {
    if (!people.has(info.client) && nameOf(info) !== user) note(`${nameOf(info)} came`);
    people.set(info.client, info);
    showPeople();
  },
  leave(info) {
    if (people.delete(info.client) && nameOf(info) !== user) note(`${nameOf(info)} left`);
    showPeople();
  },
});

// Publications by the server API have no info.
const nameOf = info => (info ? info.user || 'anonymous' : 'backend');

function publication({ data, info }, recovered, now) {
  const text = typeof data?.text === 'string' ? data.text : JSON.stringify(data);
  const author = nameOf(info);
  const time = data?.at > 0 && data.at < 8e15 ? new Date(data.at) : now;
  const mine = author === user;
  const item = make('li', { className: 'message' });
  item.classList.toggle('mine', mine);
  item.classList.toggle('backend', !info);
  item.classList.toggle('recovered', recovered);
  item.classList.toggle('grouped', last === author);
  last = author;
  const head = make('span', { className: 'author' }, mine ? 'You' : author);
  if (!mine) head.style.setProperty('--hue', hue(author));
  item.append(head, make('span', { className: 'text' }, text));
  if (time) item.append(make('time', { dateTime: time.toISOString() }, time.toLocaleTimeString([], { hour: 'numeric', minute: '2-digit' })));
  add(item);
}

function note(text) {
  last = null;
  add(make('li', { className: 'note' }, text));
}
function divider(text) {
  last = null;
  add(make('li', { className: 'divider' }, make('span', {}, text)));
}

// add keeps to the end of the list, unless somebody reads further up.
function add(item) {
  const follow = atEnd || item.classList.contains('mine');
  $('empty')?.remove();
  list.append(item);
  if (list.children.length > 500) list.firstElementChild.remove();
  if (follow) log.scrollTop = log.scrollHeight;
}
log.onscroll = () => {
  atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
};
new ResizeObserver(() => {
  if (atEnd) log.scrollTop = log.scrollHeight;
}).observe(log);

// hue is a colour for a name: always the same one.
function hue(name) {
  let sum = 0;
  for (const c of name) sum = (sum * 31 + c.codePointAt(0)) % 360;
  return sum;
}

function showPeople() {
  const names = [...new Set([...people.values()].map(nameOf))].sort((a, b) => (b === user) - (a === user) || a.localeCompare(b));
  $('count').textContent = { connected: `${names.length} here`, connecting: '…' }[state] ?? 'Nobody is known to be here while you are offline';
  $('people').replaceChildren(
    ...names.map(name => {
      const dot = make(
        'i',
        { ariaHidden: 'true' },
        name
          .split('-')
          .map(part => part[0])
          .join('')
          .slice(0, 2),
      );
      dot.style.setProperty('--hue', hue(name));
      return make('li', {}, dot, make('span', {}, name), name === user ? make('em', {}, 'you') : '');
    }),
  );
}

$('send').onsubmit = event => {
  event.preventDefault();
  const text = $('text').value.trim();
  if (!text) return;
  if (state !== 'connected' && state !== 'connecting') return note('Not sent: there is no connection');
  $('text').value = '';
  const message = { text, at: Date.now() };
  if (state === 'connected') publish(message);
  else unsent.push(message);
};
async function publish(message) {
  try {
    await client.publish(message);
  } catch (error) {
    note(`Not sent: ${error.message}`);
  }
}

for (const radio of radios) {
  radio.onchange = () => {
    history.replaceState(null, '', `?transport=${radio.value}`);
    clearTimeout(away);
    client.use(radio.value);
  };
}

// The connection stays cut for ten seconds, or until the button is pressed.
$('cut').onclick = () => {
  let left = 10;
  client.cut();
  const tick = () => {
    $('countdown').textContent = `Back in ${left} s.`;
    if (left-- === 0) reconnect();
    else away = setTimeout(tick, 1000);
  };
  tick();
  $('reconnect').focus();
};
function reconnect() {
  clearTimeout(away);
  if ($('banner').contains(document.activeElement)) $('text').focus({ preventScroll: true });
  client.connect();
}
$('reconnect').onclick = reconnect;

// The answer is shown beside the button that was pressed.
for (const button of document.querySelectorAll('.publish')) {
  button.onclick = async () => {
    const said = document.getElementById(button.dataset.answer);
    try {
      const answer = await fetch('/dev/publish', { method: 'POST' });
      said.textContent = (await answer.text()).trim();
    } catch {
      said.textContent = 'the server does not answer';
    }
  };
}

for (const button of document.querySelectorAll('.copy')) {
  button.onclick = async () => {
    const code = button.closest('.code').querySelector('pre:not([hidden]) code');
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = 'Copied';
    } catch {
      // not allowed: select the code, to be copied by keyboard
      getSelection().selectAllChildren(code);
      button.textContent = 'Selected';
    }
    setTimeout(() => {
      button.textContent = 'Copy';
    }, 1500);
  };
}

// Tabs follow the arrow keys.
for (const list of document.querySelectorAll('[role=tablist]')) {
  const tabs = [...list.querySelectorAll('[role=tab]')];
  const select = tab =>
    tabs.forEach(other => {
      other.ariaSelected = String(other === tab);
      other.tabIndex = other === tab ? 0 : -1;
      document.getElementById(other.getAttribute('aria-controls')).hidden = other !== tab;
    });
  tabs.forEach((tab, i) => {
    tab.onclick = () => select(tab);
    tab.onkeydown = event => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(i + step + tabs.length) % tabs.length];
      select(next);
      next.focus();
    };
  });
}

// Colours for the code. Its text stays the same.
const token =
  /((?<!:)\/\/.*|(?<=^|\s)#\s.*)|("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)|\b(async|await|catch|class|const|else|export|for|from|function|if|import|let|new|of|print|return|this|throw|try|typeof|curl)\b/gm;
for (const code of document.querySelectorAll('pre code')) {
  const text = code.textContent,
    parts = [];
  let end = 0;
  for (const match of text.matchAll(token)) {
    parts.push(text.slice(end, match.index), make('span', { className: match[1] ? 'c' : match[2] ? 's' : 'k' }, match[0]));
    end = match.index + match[0].length;
  }
  code.replaceChildren(...parts, text.slice(end));
}

client.connect();
