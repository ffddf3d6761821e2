/// <reference lib="esnext.disposable" />

export interface StartOptions {
  /**
   * A replica set of one, with transactions and change streams; its name if it is a text ("rs0").
   * `false`: a standalone server. Default: true.
   */
  replSet?: boolean | string;
  /** 0, the default, selects a free port. */
  port?: number;
  /** The most data in MiB; by default half of the machine's memory beyond one GiB. */
  cacheMb?: number;
  /** Further options of `nagi serve`. One that is given here replaces ours. */
  args?: readonly string[];
  /** The time to wait for the start. Default: 30 seconds. */
  timeoutMs?: number;
  /** Another program than the one of this package. */
  binary?: string;
}

/** A running server, whose data are in memory. It ends with this process, even if that is killed. */
export class Server implements AsyncDisposable {
  private constructor();
  /** "mongodb://127.0.0.1:PORT/?replicaSet=rs0" */
  readonly uri: string;
  readonly port: number;
  readonly pid: number;
  readonly isRunning: boolean;
  /** The server's log, also after its end; the last lines if their number is given. */
  log(lines?: number): string;
  /** Stops the server; kills it if it has not ended after 10 seconds. May be called again. */
  stop(options?: { timeoutMs?: number }): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** The server did not start; the message has the last lines of its log. */
export class StartError extends Error {}

/** Starts a server on 127.0.0.1 that accepts connections when the promise is fulfilled. */
export function start(options?: StartOptions): Promise<Server>;

/** The path of the server's program, for other tools that start it. */
export function binaryPath(): string;
