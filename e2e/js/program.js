import { spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';

// Program runs until it is stopped, and is ready when it has printed a text.
export class Program {
  static async start(ready, command, args, { cwd, env }) {
    const program = new Program();
    program.printed = '';
    program.output = new EventEmitter();
    program.process = spawn(command, args, { cwd, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
    program.exited = once(program.process, 'exit');
    for (const stream of [program.process.stdout, program.process.stderr]) {
      stream.setEncoding('utf8').on('data', chunk => {
        program.printed += chunk;
        program.output.emit('more');
      });
    }
    const early = program.exited.then(([code, signal]) => {
      throw new Error(`${command} ended with ${code ?? signal}:\n${program.printed}`);
    });
    await Promise.race([program.prints(ready), early]);
    early.catch(() => {}); // it ends when it is stopped
    return program;
  }

  // count is how often the program has printed a text so far.
  count(text) {
    return this.printed.split(text).length - 1;
  }

  // prints waits until the program has printed a text, so many times since its start.
  async prints(text, times = 1) {
    while (this.count(text) < times) await once(this.output, 'more');
  }

  async stop() {
    this.process.kill('SIGTERM');
    await this.exited;
  }
}
