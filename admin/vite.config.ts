import { defineConfig } from 'vite';

// The names of files are fixed, as the server sends ETags; everything else depends on the sources alone.
export default defineConfig({
  base: './',
  build: {
    target: 'es2022',
    outDir: 'dist',
    modulePreload: false,
    assetsInlineLimit: 0,
    rollupOptions: { output: { entryFileNames: 'app.js', assetFileNames: 'app[extname]' } },
  },
  server: { host: '127.0.0.1' },
});
