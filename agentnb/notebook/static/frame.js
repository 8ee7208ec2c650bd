// The frame of a live card, into which the kernel's HTML goes, and the place of a reply that is still streaming.

const SKELETON = `
  <div class="agentnb-head"><span data-slot="chip"></span><span data-slot="meta" class="agentnb-metas"></span><span data-tools></span><span data-slot="controls" class="agentnb-controls"></span></div>
  <div class="agentnb-hint-line" data-hint role="alert"></div>
  <div class="agentnb-graph-live" data-slot="graph"></div>
  <div class="agentnb-body">
    <div class="agentnb-main">
      <div class="agentnb-rounds-live" data-rounds tabindex="0" role="group" aria-label="Rounds"><div data-end data-slot="asked"></div></div>
      <button type="button" class="agentnb-newest" data-do="newest" data-newest hidden>Newest ↓</button>
    </div>
    <div class="agentnb-side">
      <div data-slot="todos"></div>
      <form class="agentnb-add" data-do="add"><input class="agentnb-field" name="text" aria-label="Add a todo" placeholder="Add a todo" autocomplete="off"><button type="submit" class="agentnb-button" aria-label="Add">+</button></form>
      <div data-slot="totals"></div>
    </div>
  </div>
  <div data-slot="findings" class="agentnb-list agentnb-findings-live" tabindex="0" role="group" aria-label="Findings"></div>
  <div data-slot="trouble" class="agentnb-foot agentnb-trouble"></div>
  <div data-slot="notes"></div>
  <form class="agentnb-say agentnb-say-live" data-do="say"><input class="agentnb-field" name="text" aria-label="Say something to the agent" placeholder="Say something to the agent while it works" autocomplete="off"><button type="submit" class="agentnb-button">Say</button><span data-slot="now"></span></form>
  <div class="agentnb-unseen" role="status" aria-live="polite"></div>`;

const STREAM = `
  <details class="agentnb-quiet-fold" hidden><summary class="agentnb-quiet">thinking …</summary><div class="agentnb-thought"></div></details>
  <div class="agentnb-text"></div><div class="agentnb-streaming"></div>`;
