import { useEffect, useState } from 'preact/hooks';

// Route is the part of the address behind "#/": a view, its subject, and its options.
export interface Route {
  view: string;
  id: string;
  tab: string;
}

export function parse(hash: string): Route {
  const [view = '', id = '', tab = ''] = hash
    .replace(/^#\/?/, '')
    .split('/')
    .map(part => {
      try {
        return decodeURIComponent(part);
      } catch {
        return part;
      }
    });
  return { view: view || 'overview', id, tab };
}

export function link(view: string, id = '', tab = ''): string {
  const parts = [view, id, tab];
  while (parts.length > 1 && !parts[parts.length - 1]) parts.pop();
  return '#/' + parts.map(encodeURIComponent).join('/');
}

export function go(view: string, id = '', tab = '') {
  location.hash = link(view, id, tab);
}

export function useRoute(): Route {
  const [route, set] = useState(parse(location.hash));
  useEffect(() => {
    const changed = () => set(parse(location.hash));
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  return route;
}
