import type { ComponentChildren } from 'preact';
import { useCallback, useEffect, useId, useRef, useState } from 'preact/hooks';
import { Rejected } from './api';
import { count, json } from './format';
import { link } from './router';

// Icons are drawn on a grid of 24, by strokes.
const paths = {
  overview: 'M4 19V10M10 19V5M16 19v-6M22 19H2',
  channels: 'M9 4 7 20M17 4l-2 16M4 9h17M3 15h17',
  users: 'M16 20v-1.5a4 4 0 0 0-4-4H7a4 4 0 0 0-4 4V20M9.5 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7M21 20v-1.5a4 4 0 0 0-3-3.8M15.5 4.2a3.5 3.5 0 0 1 0 6.6',
  events: 'M12 7v5l3.5 2M21 12a9 9 0 1 1-18 0 9 9 0 0 1 18 0',
  explain: 'M9.2 9a2.9 2.9 0 1 1 4 2.7c-.8.4-1.2 1-1.2 1.8v.5M12 17.5v.1M21 12a9 9 0 1 1-18 0 9 9 0 0 1 18 0',
  trace: 'M3 12h4l3-8 4 16 3-8h4',
  actions: 'm5 7 5 5-5 5M12 18h7',
  warnings: 'M12 9v4.5M12 17v.1M10.3 4 2.8 17a2 2 0 0 0 1.7 3h15a2 2 0 0 0 1.7-3L13.7 4a2 2 0 0 0-3.4 0',
  refusals: 'M21 12a9 9 0 1 1-18 0 9 9 0 0 1 18 0M5.7 5.7l12.6 12.6',
  config: 'M4 6h10M18 6h2M4 12h2M10 12h10M4 18h8M16 18h4M16 4v4M8 10v4M14 16v4',
  sun: 'M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6 19 19M5 19l1.4-1.4M17.6 6.4 19 5',
  moon: 'M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5',
  out: 'M9 20H5a1 1 0 0 1-1-1V5a1 1 0 0 1 1-1h4M16 8l4 4-4 4M20 12H9',
  keys: 'M3 7h18v10H3zM7 11v.1M11 11v.1M15 11v.1M8 14.5h8',
  menu: 'M4 7h16M4 12h16M4 17h16',
  close: 'm6 6 12 12M18 6 6 18',
} as const;
export type IconName = keyof typeof paths;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
      <path d={paths[name]} />
    </svg>
  );
}

// useLoad asks for something when the view appears, when one of deps changes, and on reload; with every, also so
// often in milliseconds while the page is visible. Much that is shown is asked for less often: see size.
export function useLoad<T>(ask: (signal: AbortSignal) => Promise<T>, deps: unknown[], every = 0, size: (value: T) => number = () => 0) {
  const [state, set] = useState<{ value?: T; error?: string; loading: boolean }>({ loading: true });
  const [turn, again] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    let timer = 0;
    const run = async () => {
      let pause = every;
      try {
        const value = await ask(abort.signal);
        pause *= Math.ceil((size(value) + 1) / 1000);
        if (!abort.signal.aborted) set({ value, loading: false });
      } catch (error) {
        if (!abort.signal.aborted && !(error instanceof Rejected)) {
          set(was => ({ ...(was.value !== undefined && { value: was.value }), error: (error as Error).message, loading: false }));
        }
      }
      if (every && !abort.signal.aborted) timer = window.setTimeout(() => (document.hidden ? wait() : run()), pause);
    };
    const wait = () => document.addEventListener('visibilitychange', run, { once: true, signal: abort.signal });
    set(was => ({ ...was, loading: true }));
    run();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [...deps, turn]);
  return { ...state, reload: useCallback(() => again(n => n + 1), []) };
}

// useStored is a state that outlives the page.
export function useStored(key: string, initial: string): [string, (value: string) => void] {
  const [value, set] = useState(localStorage.getItem(key) ?? initial);
  return [
    value,
    next => {
      localStorage.setItem(key, next);
      set(next);
    },
  ];
}

export function Page({
  title,
  lead,
  tools,
  children,
}: {
  title: ComponentChildren;
  lead?: ComponentChildren;
  tools?: ComponentChildren;
  children: ComponentChildren;
}) {
  return (
    <>
      <header class="page-head">
        <div>
          <h1 tabIndex={-1}>{title}</h1>
          {lead && <p class="lead">{lead}</p>}
        </div>
        {tools && <div class="tools">{tools}</div>}
      </header>
      {children}
    </>
  );
}

export function Panel({
  title,
  tools,
  children,
  class: name = '',
}: {
  title?: ComponentChildren;
  tools?: ComponentChildren;
  children: ComponentChildren;
  class?: string;
}) {
  const id = useId();
  return (
    <section class={`panel ${name}`} aria-labelledby={title ? id : undefined}>
      {title && (
        <div class="panel-head">
          <h2 id={id}>{title}</h2>
          {tools && <div class="tools">{tools}</div>}
        </div>
      )}
      {children}
    </section>
  );
}

export type Tone = 'good' | 'bad' | 'warn' | 'info' | 'plain';

export function Badge({ tone = 'plain', title, children }: { tone?: Tone; title?: string; children: ComponentChildren }) {
  return (
    <span class={`badge ${tone}`} title={title}>
      {children}
    </span>
  );
}

export function Notice({ tone = 'info', children }: { tone?: Tone; children: ComponentChildren }) {
  return (
    <div class={`notice ${tone}`} role={tone === 'bad' ? 'alert' : 'status'}>
      {children}
    </div>
  );
}

// Breakable is a name that may break behind its dots and underscores, and nowhere else.
export function Breakable({ of }: { of: string }) {
  return (
    <>
      {of.split(/(?<=[._])/).map(part => (
        <>
          {part}
          <wbr />
        </>
      ))}
    </>
  );
}

// KeyLink leads to a key of the configuration.
export function KeyLink({ of }: { of: string | undefined }) {
  // channel.namespaces[chat].presence is found as channel.namespaces[0](chat).presence.
  return of ? (
    <a href={link('config', of.split(',')[0]!.replace(/\[([^\]\d][^\]]*)\]/g, ' ($1) '))}>
      <code class="name">
        <Breakable of={of} />
      </code>
    </a>
  ) : (
    <span class="faint">–</span>
  );
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

// Loaded shows the error, the wait, or the loaded value.
export function Loaded<T>({ of, children }: { of: { value?: T; error?: string; loading: boolean }; children: (value: T) => ComponentChildren }) {
  return (
    <>
      {of.error && <Notice tone="bad">{of.error}</Notice>}
      {of.value !== undefined ? children(of.value) : of.loading && !of.error && <Loading />}
    </>
  );
}

export function Loading() {
  return (
    <p class="empty" aria-live="polite">
      Loading…
    </p>
  );
}

export interface Column<T> {
  name: string;
  cell: (row: T) => ComponentChildren;
  number?: boolean;
  wide?: boolean;
  narrow?: boolean; // as wide as its content, which does not wrap
  key?: boolean; // names of keys
  sort?: (row: T) => string | number;
}

const texts = new Intl.Collator('en', { numeric: true });

// Table shows rows, sorted by the head that was clicked. On a narrow page each row is a card.
export function Table<T>({
  caption,
  columns,
  rows,
  rowKey,
  empty,
  initial,
  most = 100,
}: {
  caption: string;
  columns: Column<T>[];
  rows: T[];
  rowKey: (row: T, i: number) => string;
  empty: ComponentChildren;
  initial?: { column: number; down: boolean };
  most?: number;
}) {
  const [order, setOrder] = useState(initial);
  const [limit, setLimit] = useState(most);
  if (rows.length === 0) return <Empty>{empty}</Empty>;
  const by = order && columns[order.column]?.sort;
  const sorted = by
    ? rows.toSorted((a, b) => {
        const x = by(a),
          y = by(b),
          c = typeof x === 'number' && typeof y === 'number' ? x - y : texts.compare(String(x), String(y));
        return order!.down ? -c : c;
      })
    : rows;
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label={caption}>
      <table>
        <caption class="hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((c, i) => (
              <th scope="col" class={c.number ? 'number' : ''} aria-sort={order?.column === i ? (order.down ? 'descending' : 'ascending') : undefined}>
                {c.sort ? (
                  <button type="button" class="sort" onClick={() => setOrder({ column: i, down: order?.column === i ? !order.down : !!c.number })}>
                    {c.name}
                    <span aria-hidden="true">{order?.column === i ? (order.down ? ' ↓' : ' ↑') : ''}</span>
                  </button>
                ) : (
                  c.name
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sorted.slice(0, limit).map((row, i) => (
            <tr key={rowKey(row, i)}>
              {columns.map(c => (
                <td class={classOf(c)} data-label={c.name}>
                  <div>{c.cell(row)}</div>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {sorted.length > limit && (
        <p class="empty">
          <button type="button" onClick={() => setLimit(limit + most)}>
            Show more
          </button>{' '}
          {count(limit)} of {count(sorted.length)} are shown.
        </p>
      )}
    </div>
  );
}

function classOf<T>(c: Column<T>): string {
  return [c.number && 'number', c.wide && 'wide', c.narrow && 'narrow', c.key && 'key'].filter(Boolean).join(' ');
}

// Part shows the first of many things, and more when asked.
export function Part<T>({ of, most, children }: { of: T[]; most: number; children: (shown: T[]) => ComponentChildren }) {
  const [limit, setLimit] = useState(most);
  return (
    <>
      {children(of.slice(0, limit))}
      {of.length > limit && (
        <p class="empty">
          <button type="button" onClick={() => setLimit(limit + most)}>
            Show more
          </button>{' '}
          {count(limit)} of {count(of.length)} are shown.
        </p>
      )}
    </>
  );
}

// Json shows a value, folded if it is long.
export function Json({ value }: { value: unknown }) {
  if (value === undefined) return <span class="faint">–</span>;
  const line = json(value, 0);
  if (line.length <= 90) return <code class="json">{line}</code>;
  return (
    <details class="json">
      <summary>
        <code>{line.slice(0, 90)}…</code>
      </summary>
      <pre tabIndex={0}>{json(value)}</pre>
    </details>
  );
}

export function Field({
  label,
  hint,
  children,
}: {
  label: string;
  hint?: ComponentChildren;
  children: (props: { id: string; 'aria-describedby'?: string }) => ComponentChildren;
}) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children(hint ? { id, 'aria-describedby': `${id}-hint` } : { id })}
      {hint && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  );
}

// Search is the field that the key / leads to.
export function Search({ label, value, onInput, placeholder }: { label: string; value: string; onInput: (value: string) => void; placeholder?: string }) {
  return (
    <input
      type="search"
      data-search
      aria-label={label}
      placeholder={placeholder ?? label}
      value={value}
      autocomplete="off"
      spellcheck={false}
      onInput={e => onInput(e.currentTarget.value)}
    />
  );
}

// Dialog is modal: the browser keeps the focus in it and gives it back.
export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null),
    id = useId();
  useEffect(() => {
    const dialog = ref.current!,
      before = document.activeElement;
    dialog.showModal();
    return () => {
      dialog.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the key is Escape, of which the browser makes cancel
    <dialog
      ref={ref}
      aria-labelledby={id}
      onCancel={e => {
        e.preventDefault();
        onClose();
      }}
      onClick={e => {
        if (e.target === ref.current) onClose();
      }}
    >
      <div class="dialog-body">
        <h2 id={id}>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

export interface Action {
  title: string;
  body: ComponentChildren;
  verb: string;
  run: () => Promise<unknown>;
  done?: string;
  danger?: boolean;
  type?: string;
}

// useAction asks before it does something, and shows what went wrong.
export function useAction(): [ComponentChildren, (action: Action) => void] {
  const [action, set] = useState<Action>();
  return [action && <Confirm key={action.title} action={action} onClose={() => set(undefined)} />, set];
}

function Confirm({ action, onClose }: { action: Action; onClose: () => void }) {
  const [busy, setBusy] = useState(false),
    [error, setError] = useState(''),
    [typed, setTyped] = useState('');
  const submit = async (e: Event) => {
    e.preventDefault();
    setBusy(true);
    try {
      await action.run();
      say(action.done ?? 'Done');
      onClose();
    } catch (error) {
      setError((error as Error).message);
      setBusy(false);
    }
  };
  return (
    <Dialog title={action.title} onClose={onClose}>
      <form onSubmit={submit}>
        <div class="confirm">{action.body}</div>
        {action.type && (
          <Field label={`Type ${action.type} to confirm`}>
            {props => <input {...props} type="text" value={typed} onInput={e => setTyped(e.currentTarget.value)} autocomplete="off" spellcheck={false} />}
          </Field>
        )}
        {error && <Notice tone="bad">{error}</Notice>}
        <div class="buttons">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class={action.danger === false ? 'primary' : 'danger'} disabled={busy || (!!action.type && typed !== action.type)}>
            {action.verb}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

// say shows a short message for some seconds.
let show: (text: string) => void = () => {};
export function say(text: string) {
  show(text);
}

export function Toasts() {
  const [text, set] = useState('');
  useEffect(() => {
    let timer = 0;
    show = text => {
      set(text);
      clearTimeout(timer);
      timer = window.setTimeout(() => set(''), 4000);
    };
    return () => clearTimeout(timer);
  }, []);
  return (
    <div class={`toast ${text && 'on'}`} role="status" aria-live="polite">
      {text}
    </div>
  );
}

export interface Tab {
  id: string;
  name: string;
  body: () => ComponentChildren;
}

// Tabs follow the pattern of ARIA: arrows move between them.
export function Tabs({ label, tabs, active, onChange }: { label: string; tabs: Tab[]; active: string; onChange: (id: string) => void }) {
  const now = tabs.find(t => t.id === active) ?? tabs[0]!;
  const list = useRef<HTMLDivElement>(null);
  const [more, setMore] = useState('');
  useEffect(() => {
    const box = list.current!;
    const look = () => {
      const left = box.scrollLeft > 1,
        right = box.scrollWidth - box.clientWidth - box.scrollLeft > 1;
      setMore(`${left ? 'more-left' : ''} ${right ? 'more-right' : ''}`.trim());
    };
    const resize = new ResizeObserver(look);
    resize.observe(box);
    box.addEventListener('scroll', look, { passive: true });
    look();
    return () => {
      resize.disconnect();
      box.removeEventListener('scroll', look);
    };
  }, [tabs.length]);
  useEffect(() => {
    const chosen = list.current?.querySelector<HTMLElement>('[aria-selected=true]');
    if (chosen && list.current) list.current.scrollLeft = chosen.offsetLeft - (list.current.clientWidth - chosen.offsetWidth) / 2;
  }, [now.id]);
  const keys = (e: KeyboardEvent) => {
    const step = e.key === 'ArrowRight' ? 1 : e.key === 'ArrowLeft' ? -1 : 0;
    if (!step) return;
    e.preventDefault();
    const next = tabs[(tabs.indexOf(now) + step + tabs.length) % tabs.length]!;
    onChange(next.id);
    list.current?.querySelector<HTMLElement>(`#tab-${next.id}`)?.focus();
  };
  return (
    <>
      <div class={`tabs-box ${more}`}>
        <div class="tabs" role="tablist" aria-label={label} ref={list} onKeyDown={keys}>
          {tabs.map(t => (
            <button
              type="button"
              role="tab"
              id={`tab-${t.id}`}
              aria-selected={t === now}
              aria-controls="tab-panel"
              tabIndex={t === now ? 0 : -1}
              onClick={() => onChange(t.id)}
            >
              {t.name}
            </button>
          ))}
        </div>
      </div>
      <div role="tabpanel" id="tab-panel" aria-labelledby={`tab-${now.id}`} key={now.id}>
        {now.body()}
      </div>
    </>
  );
}
