#!/usr/bin/env node
// A file of its own, so that installing can link it before the compiled output exists.
import "../dist/main.js";
