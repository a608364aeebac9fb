import { render } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { get, init, logOut, onSessionEnd, type About } from './api';
import { Dialog, Icon, Notice, say, Toasts, useStored, type IconName } from './components';
import * as live from './live';
import { go, link, useRoute } from './router';
import './style.css';
import { ApiConsole } from './views/actions';
import { Channel } from './views/channel';
import { Channels } from './views/channels';
import { Configuration } from './views/config';
import { Events } from './views/events';
import { Explain } from './views/explain';
import { Login } from './views/login';
import { Overview } from './views/overview';
import { Refusals } from './views/refusals';
import { Trace } from './views/trace';
import { Users } from './views/users';
import { Warnings } from './views/warnings';

interface View {
  id: string;
  name: string;
  key: string;
  icon: IconName;
  on?: (about: About) => boolean;
  also?: string;
}

const views: View[] = [
  { id: 'overview', name: 'Overview', key: 'o', icon: 'overview' },
  { id: 'channels', name: 'Channels', key: 'c', icon: 'channels', also: 'channel' },
  { id: 'users', name: 'Users', key: 'u', icon: 'users' },
  { id: 'explain', name: 'Explain', key: 'e', icon: 'explain', on: a => a.methods.includes('explain') },
  { id: 'events', name: 'Flight recorder', key: 'f', icon: 'events', on: a => a.methods.includes('flight') },
  { id: 'trace', name: 'Trace', key: 't', icon: 'trace', on: a => a.endpoints.includes('trace') },
  { id: 'refusals', name: 'Refusals', key: 'r', icon: 'refusals', on: a => a.endpoints.includes('refusals') },
  { id: 'warnings', name: 'Warnings', key: 'w', icon: 'warnings', on: a => a.endpoints.includes('logs') },
  { id: 'actions', name: 'API console', key: 'a', icon: 'actions' },
  { id: 'config', name: 'Configuration', key: 's', icon: 'config' },
];

function App() {
  const [phase, setPhase] = useState<'start' | 'login' | 'in'>('start');
  const [about, setAbout] = useState<About>();
  const [insecure, setInsecure] = useState(false);
  const [notice, setNotice] = useState('');

  const enter = async () => {
    const known = await get<About>('about');
    setAbout(known);
    live.begin();
    setNotice('');
    setPhase('in');
  };
  const leave = (text: string) => {
    live.end();
    setNotice(text);
    setPhase('login');
  };
  const start = async () => {
    try {
      const { authenticated, insecure } = await init();
      setInsecure(insecure);
      if (authenticated) await enter();
      else leave('');
    } catch (error) {
      leave((error as Error).message);
    }
  };
  useEffect(() => {
    onSessionEnd(() => leave('The session has ended. Log in again.'));
    start();
  }, []);

  return (
    <>
      {phase === 'login' && <Login notice={notice} onDone={enter} />}
      {phase === 'in' && about && (
        <Shell
          about={about}
          insecure={insecure}
          onOut={() => {
            logOut();
            leave('');
          }}
          onChange={enter}
        />
      )}
      <Toasts />
    </>
  );
}

function Shell({ about, insecure, onOut, onChange }: { about: About; insecure: boolean; onOut: () => void; onChange: () => Promise<void> }) {
  const route = useRoute();
  const [help, setHelp] = useState(false),
    [open, setOpen] = useState(false);
  const main = useRef<HTMLElement>(null),
    first = useRef(true);
  const shown = views.filter(v => !v.on || v.on(about));
  const current = views.find(v => v.id === route.view || v.also === route.view);
  const title = route.id ? `${route.id} – ${current?.name ?? ''}` : (current?.name ?? '');

  useEffect(() => {
    document.title = `${title} – Gyro admin`;
    setOpen(false);
    if (!first.current && route.tab === '') main.current?.querySelector<HTMLElement>('h1')?.focus();
    first.current = false;
  }, [route.view, route.id]);
  useShortcuts(shown, () => setHelp(true));
  const broken = useBroken(about, onChange);

  return (
    <div class="shell">
      {/* biome-ignore lint/a11y/useValidAnchor: it goes to a place of this page, and the router has the fragment of the address */}
      <a
        class="skip"
        href="#main"
        onClick={e => {
          e.preventDefault();
          main.current?.querySelector<HTMLElement>('h1')?.focus();
        }}
      >
        Skip to the content
      </a>
      <header class="top">
        <button type="button" class="plain-button menu" aria-label="Menu" aria-expanded={open} aria-controls="nav" onClick={() => setOpen(!open)}>
          <Icon name={open ? 'close' : 'menu'} />
        </button>
        <a class="brand" href={link('overview')}>
          <img src="./icon.svg" alt="" width="26" height="26" />
          Gyro
        </a>
        <span class="where" title={about.uid}>
          {about.node} <span class="faint">{about.version}</span>
        </span>
        <span class="grow" />
        <Theme />
        <button type="button" class="plain-button" aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)" onClick={() => setHelp(true)}>
          <Icon name="keys" />
        </button>
        {!insecure && (
          <button type="button" class="plain-button" aria-label="Log out" title="Log out" onClick={onOut}>
            <Icon name="out" />
          </button>
        )}
      </header>
      <nav id="nav" class={open ? 'open' : ''} aria-label="Views">
        <ul>
          {shown.map(v => (
            <li>
              <a href={link(v.id)} aria-current={v === current ? 'page' : undefined}>
                <Icon name={v.icon} />
                <span>{v.name}</span>
                {/* biome-ignore lint/a11y/noAriaHiddenOnFocusable: a kbd has never the focus */}
                <kbd aria-hidden="true">g {v.key}</kbd>
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <main id="main" ref={main}>
        {insecure && <Notice tone="warn">admin.insecure is on: whoever reaches this address is an operator.</Notice>}
        {broken && <Notice tone="bad">{broken} What is shown may be old; it goes on by itself.</Notice>}
        <Content view={route.view} id={route.id} tab={route.tab} about={about} />
      </main>
      {help && (
        <Dialog title="Keyboard shortcuts" onClose={() => setHelp(false)}>
          <dl class="keys">
            {shown.map(v => (
              <div>
                <dt>
                  <kbd>g</kbd> <kbd>{v.key}</kbd>
                </dt>
                <dd>{v.name}</dd>
              </div>
            ))}
            <div>
              <dt>
                <kbd>/</kbd>
              </dt>
              <dd>Search in this view</dd>
            </div>
            <div>
              <dt>
                <kbd>d</kbd>
              </dt>
              <dd>Dark or light</dd>
            </div>
            <div>
              <dt>
                <kbd>?</kbd>
              </dt>
              <dd>This list</dd>
            </div>
            <div>
              <dt>
                <kbd>Esc</kbd>
              </dt>
              <dd>Close a dialog</dd>
            </div>
          </dl>
          <div class="buttons">
            <button type="button" class="primary" onClick={() => setHelp(false)}>
              Close
            </button>
          </div>
        </Dialog>
      )}
    </div>
  );
}

// useBroken returns the fault while the server does not report the nodes. If the node that answered is
// gone, it asks again for the server's methods.
function useBroken(about: About, changed: () => Promise<void>): string {
  const [error, setError] = useState(live.live().error);
  useEffect(
    () =>
      live.watch(now => {
        setError(now.error);
        if (!now.error && now.loaded && !now.nodes.some(n => n.uid === about.uid && !n.gone)) changed().catch(() => {}); // asked again in a moment
      }),
    [about.uid],
  );
  return error && `${error.replace(/\.?$/, '.')}`;
}

function Content({ view, id, tab, about }: { view: string; id: string; tab: string; about: About }) {
  switch (view) {
    case 'overview':
      return <Overview about={about} />;
    case 'channels':
      return <Channels />;
    case 'channel':
      return <Channel key={id} name={id} tab={tab} about={about} />;
    case 'users':
      return <Users key={id} user={id} open={tab === 'is'} about={about} />;
    case 'explain':
      return <Explain key={`${id} ${tab}`} user={id} channel={tab} />;
    case 'trace':
      return <Trace id={id} kind={tab} />;
    case 'refusals':
      return <Refusals />;
    case 'events':
      return <Events kind={tab} id={id} />;
    case 'warnings':
      return <Warnings about={about} />;
    case 'actions':
      return <ApiConsole about={about} />;
    case 'config':
      return <Configuration />;
  }
  return (
    <>
      <h1 tabIndex={-1}>There is no such view</h1>
      <p>
        <a href={link('overview')}>Overview</a>
      </p>
    </>
  );
}

// Theme is the system's unless the operator has chosen one.
function Theme() {
  const [chosen, choose] = useStored('gyro-admin-theme', '');
  const [system, setSystem] = useState(matchMedia('(prefers-color-scheme: dark)').matches);
  useEffect(() => {
    const media = matchMedia('(prefers-color-scheme: dark)'),
      changed = () => setSystem(media.matches);
    media.addEventListener('change', changed);
    return () => media.removeEventListener('change', changed);
  }, []);
  const dark = chosen ? chosen === 'dark' : system;
  useEffect(() => {
    document.documentElement.dataset.theme = dark ? 'dark' : 'light';
    dispatchEvent(new Event('themechange'));
  }, [dark]);
  return (
    <button
      type="button"
      class="plain-button"
      id="theme"
      aria-label={dark ? 'Light colours' : 'Dark colours'}
      title={`${dark ? 'Light' : 'Dark'} colours (d)`}
      onClick={() => choose(dark ? 'light' : 'dark')}
    >
      <Icon name={dark ? 'sun' : 'moon'} />
    </button>
  );
}

// useShortcuts listens to keys unless the focus is where one types, or in a dialog.
function useShortcuts(shown: View[], help: () => void) {
  useEffect(() => {
    let leading = 0;
    const pressed = (e: KeyboardEvent) => {
      const at = e.target as HTMLElement;
      if (e.ctrlKey || e.metaKey || e.altKey || at.closest('input, textarea, select, dialog')) return;
      if (Date.now() - leading < 1500) {
        leading = 0;
        const view = shown.find(v => v.key === e.key);
        if (view) {
          e.preventDefault();
          go(view.id);
        }
        return;
      }
      switch (e.key) {
        case 'g':
          leading = Date.now();
          break;
        case '?':
          e.preventDefault();
          help();
          break;
        case 'd':
          document.getElementById('theme')?.click();
          break;
        case '/': {
          const field = document.querySelector<HTMLInputElement>('[data-search]');
          if (field) {
            e.preventDefault();
            field.focus();
            field.select();
          } else say('Nothing to search in this view');
        }
      }
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  });
}

render(<App />, document.getElementById('app')!);
