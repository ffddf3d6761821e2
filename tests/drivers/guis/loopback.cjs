// Loaded before an application that listens on all addresses: it listens on this machine only.
const net = require('node:net');

const { listen } = net.Server.prototype;
net.Server.prototype.listen = function (...args) {
  return typeof args[0] === 'object' || typeof args[1] === 'string'
    ? listen.apply(this, args)
    : listen.call(this, { port: Number(args[0]), host: '127.0.0.1' }, args.findLast((arg) => typeof arg === 'function'));
};
