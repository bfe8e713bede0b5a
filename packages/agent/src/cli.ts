#!/usr/bin/env node
import { runCommand } from "./program.ts";

await runCommand(process.argv.slice(2));
