"""A language-model stage that is elsewhere: an engine that speaks OpenAI's chat completions over HTTP.

`run` has the stage, everything else here is a part of it: what is asked (`body`, `messages`), how the answer is read
(`events`, `pieces`, `answer`), what goes wrong (`faults`, `retries`), and what is learned of the engine (`facts`).
"""
