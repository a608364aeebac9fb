// The documentation as a web site. Its pages are README.md, CONTRIBUTING.md and the pages below docs, as they are in
// the repository; its navigation is the table of contents, docs/README.md.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { defineConfig } from 'vitepress';
import { pages, sidebar } from './contents.mjs';
import { plain, slug } from './markdown.mjs';

const root = path.resolve(import.meta.dirname, '../..');
const repository = 'https://github.com/gyrohq/gyro';
const logo = readFileSync(path.join(import.meta.dirname, '../logo.svg'), 'utf8').trim();
const icon = `data:image/svg+xml,${encodeURIComponent(logo)}`;

// vue leaves Vue to Node.js while pages are rendered: Vite would look for it from the pages upwards, and it is below
// this folder.
const vue = {
  name: 'vue',
  enforce: 'pre',
  resolveId: (source, _, { ssr }) => (ssr && /^vue($|\/)/.test(source) ? { id: source, external: true } : undefined),
};

// folded makes the sign of a section that can be folded its only button. The theme makes the whole line a second one around it, which no screen
// reader can tell apart.
const folded = {
  name: 'folded',
  enforce: 'pre',
  transform(code, id) {
    if (!id.endsWith('/VPSidebarItem.vue')) return;
    const wrong = [':role="itemRole"', ':tabindex="item.items && 0"'];
    if (!wrong.every(attribute => code.includes(attribute))) throw new Error('the theme has another VPSidebarItem.vue');
    return wrong.reduce((rest, attribute) => rest.replace(attribute, ''), code);
  },
};

export default defineConfig({
  title: 'Gyro',
  description: 'A real-time messaging server, and the Go library that it is built on',
  lang: 'en',
  srcDir: '..',
  srcExclude: ['!(docs)/*/**'],
  rewrites: Object.fromEntries(pages(root)),
  outDir: path.join(root, '.cache/site'),
  cacheDir: path.join(root, '.cache/vitepress'),
  ignoreDeadLinks: true, // check.mjs finds more of them, and takes links to localhost for what they are
  head: [['link', { rel: 'icon', href: icon }]],
  appearance: true,
  vite: { plugins: [vue, folded], build: { chunkSizeWarningLimit: 4096 } }, // the index of the search is one file
  markdown: {
    anchor: { slugify: slug },
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    config: md => plain(md, { root, repository }),
  },
  themeConfig: {
    logo: { src: icon, alt: '' },
    sidebar: sidebar(root),
    outline: { level: [2, 3], label: 'On this page' },
    search: { provider: 'local' },
    socialLinks: [{ icon: 'github', link: repository }],
    docFooter: { prev: 'Before', next: 'Next' },
    externalLinkIcon: true,
  },
  transformPageData(page) {
    if (page.relativePath === 'index.md') Object.assign(page.frontmatter, home);
  },
});

// home is what the first page has above the table of contents.
const home = {
  layout: 'home',
  hero: {
    name: 'Gyro',
    image: { src: icon, alt: '' },
    text: 'Real-time messages for your users',
    tagline: 'A server that keeps their connections and delivers what your backend publishes, in any language. And the Go library that it is built on.',
    actions: [
      { theme: 'brand', text: 'A first look', link: '/getting-started#a-first-look' },
      { theme: 'alt', text: 'A chat in ten minutes', link: '/getting-started#a-chat-of-your-own-in-ten-minutes' },
      { theme: 'alt', text: 'A backend in your language', link: '/quick-start' },
    ],
  },
};
