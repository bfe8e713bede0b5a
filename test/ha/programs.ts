import { existsSync } from "node:fs";

/** Debian 12 package of each program that the test starts. */
const packages: readonly (readonly [package_: string, ...places: string[]])[] = [
  ["patroni", "/usr/bin/patroni"],
  ["python3-etcd", "/usr/lib/python3/dist-packages/etcd/__init__.py"],
  ["etcd-server", "/usr/bin/etcd"],
  ["haproxy", "/usr/sbin/haproxy"],
  ["redis-server", "/usr/bin/redis-server"],
  ["postgresql-15", "/usr/lib/postgresql/15/bin/postgres"],
];

/** Returns the Debian packages that this machine lacks. */
export const missingPackages = (): string[] =>
  packages.filter(([, ...places]) => !places.some((place) => existsSync(place))).map(([name]) => name);

export const programs = {
  patroni: "/usr/bin/patroni",
  etcd: "/usr/bin/etcd",
  haproxy: "/usr/sbin/haproxy",
  redis: "/usr/bin/redis-server",
} as const;
