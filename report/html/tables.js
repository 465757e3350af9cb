(function () {
  "use strict";
  // Sorting, searching and copying are for the eye and the hand; without scripts the tables are whole.
  function button(text, label, press) {
    var b = document.createElement("button");
    b.type = "button"; b.textContent = text;
    if (label) b.setAttribute("aria-label", label);
    b.addEventListener("click", function () { press(b); });
    return b;
  }
  function copy(text, b) {
    var was = b.textContent;
    function done(ok) { b.textContent = ok ? "Copied" : "Not copied"; setTimeout(function () { b.textContent = was; }, 1500); }
    if (navigator.clipboard && navigator.clipboard.writeText) navigator.clipboard.writeText(text).then(function () { done(true); }, function () { done(old(text)); });
    else done(old(text));
  }
  function old(text) { // where a page opened from a file may not use the clipboard
    var area = document.createElement("textarea"), ok = false;
    area.value = text; document.body.appendChild(area); area.select();
    try { ok = document.execCommand("copy"); } catch (e) { ok = false; }
    area.remove();
    return ok;
  }
  // A row with the rows that belong to it: a stage with its kernels.
  function groups(table) {
    var out = [];
    Array.prototype.forEach.call(table.tBodies[0].rows, function (row) {
      if (row.classList.contains("kernel") && out.length) out[out.length - 1].push(row); else out.push([row]);
    });
    return out;
  }
  function key(row, at) {
    var cell = row.cells[at];
    if (!cell) return null;
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    var text = cell.textContent.trim();
    return text === "" || text === "-" ? null : /^-?[0-9]+(\.[0-9]+)?$/.test(text) ? Number(text) : text;
  }
  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a === "number") return -1;
    if (typeof b === "number") return 1;
    return String(a).localeCompare(String(b));
  }
  function sort(table, at) {
    var head = table.tHead.rows[0].cells, up = head[at].getAttribute("aria-sort") === "descending", all = groups(table);
    Array.prototype.forEach.call(head, function (th) { th.removeAttribute("aria-sort"); });
    head[at].setAttribute("aria-sort", up ? "ascending" : "descending");
    all.map(function (rows, i) { return { rows: rows, key: key(rows[0], at), i: i }; }).sort(function (a, b) {
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null) || a.i - b.i; // nothing to sort by goes last
      return (up ? 1 : -1) * compare(a.key, b.key) || a.i - b.i;
    }).forEach(function (g) { g.rows.forEach(function (row) { table.tBodies[0].appendChild(row); }); });
  }
  function search(table, text) {
    text = text.toLowerCase();
    groups(table).forEach(function (rows) {
      var hit = rows.some(function (row) { return row.textContent.toLowerCase().indexOf(text) >= 0; });
      rows.forEach(function (row) { row.hidden = !hit; });
    });
  }
  function text(table) {
    return Array.prototype.filter.call(table.rows, function (row) { return !row.hidden; }).map(function (row) {
      return Array.prototype.map.call(row.cells, function (c) { return (c.title || c.textContent).trim(); }).join("\t");
    }).join("\n") + "\n";
  }
  document.querySelectorAll("table.grid").forEach(function (table) {
    var name = table.parentNode.getAttribute("aria-label") || "table", tools = document.createElement("p");
    tools.className = "tools";
    if (table.tHead && table.tBodies[0].rows.length > 1) Array.prototype.forEach.call(table.tHead.rows[0].cells, function (th, at) {
      if (!th.textContent.trim()) return;
      var b = button(th.textContent, "", function () { sort(table, at); });
      b.className = "sort"; th.textContent = ""; th.appendChild(b);
    });
    if (table.tBodies[0].rows.length >= 8) {
      var input = document.createElement("input");
      input.type = "search"; input.placeholder = "Search"; input.setAttribute("aria-label", "Search in " + name);
      input.addEventListener("input", function () { search(table, input.value); });
      tools.appendChild(input);
    }
    // A phone has the columns of the answer first; the others are one press away.
    var later = table.querySelectorAll("th.later").length;
    if (later) {
      table.classList.add("answer-first");
      var more = button("All columns", "All columns of " + name, function (b) { b.setAttribute("aria-pressed", String(!table.classList.toggle("answer-first"))); });
      more.className = "more"; more.setAttribute("aria-pressed", "false");
      tools.appendChild(more);
      if (table.tBodies[0].rows.length < 3) tools.classList.add("narrow"); // nothing else is in it
    }
    if (table.tBodies[0].rows.length < 3 && !later) return; // nothing to gather
    if (table.tBodies[0].rows.length > 2) tools.appendChild(button("Copy", "Copy " + name, function (b) { copy(text(table), b); }));
    var scroll = table.parentNode.classList.contains("scroll") ? table.parentNode : table;
    scroll.parentNode.insertBefore(tools, scroll);
  });
  document.querySelectorAll("dd > code, p > code:only-child").forEach(function (code) {
    if (code.parentNode.tagName === "P" && code.parentNode.textContent.trim() !== code.textContent.trim()) return;
    var b = button("Copy", "Copy " + code.textContent.slice(0, 60), function (b) { copy(code.textContent, b); });
    b.className = "copy";
    code.parentNode.insertBefore(b, code.nextSibling);
  });
})();
