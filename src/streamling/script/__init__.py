"""JavaScript and TypeScript over Arrow batches, in a sandbox.

| Module | What it does |
|---|---|
| `typescript` | TypeScript → JavaScript, every line where it was |
| `program` | the user's text → the program a sandbox runs, with the columns of one node |
| `codecs` | Arrow columns → what crosses into the sandbox, and back; by families in `numbers`, `moments`, `nested` |
| `runner` | batches through a program; `failures` are its errors in the user's terms |
| `quickjs`, `v8` | the two engines: text and bytes in, text and bytes out |
"""
