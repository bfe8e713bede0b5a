#!/usr/bin/env -S node --
import { run } from "./program.ts";

void run(process.argv.slice(2));
