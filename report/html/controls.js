// controls gives a view its buttons, its search, its keys and the help about them.
gpuprof.controls = function (v, p) {
  "use strict";
  var id = v.canvas.id,
    bar = gpuprof.element("div", { class: "controls", role: "group", "aria-label": p.name });
  function button(name, text, press, into) {
    var b = gpuprof.element("button", { type: "button", id: id + "-" + name }, text);
    b.addEventListener("click", function () {
      gpuprof.current = v;
      press(b);
    });
    (into || bar).appendChild(b);
    return b;
  }
  button("in", "Zoom in", function () {
    v.zoom(0.5);
  });
  button("out", "Zoom out", function () {
    v.zoom(2);
  });
  button("left", "Left", function () {
    v.pan(-0.4);
  });
  button("right", "Right", function () {
    v.pan(0.4);
  });
  button("all", "All", v.all);
  if (p.sums)
    button("select", "Select", function (b) {
      v.selects = !v.selects;
      b.setAttribute("aria-pressed", String(v.selects));
    }).setAttribute("aria-pressed", "false");
  var box = gpuprof.element("span", { class: "search" }),
    count = gpuprof.element("output", { id: id + "-count" });
  var input = gpuprof.element("input", {
    type: "search",
    id: id + "-search",
    placeholder: "Search ( / )",
    "aria-label": "Search in: " + p.name,
  });
  box.appendChild(input);
  button(
    "previous",
    "Previous",
    function () {
      v.next(-1);
    },
    box,
  );
  button(
    "next",
    "Next",
    function () {
      v.next(1);
    },
    box,
  );
  box.appendChild(count);
  bar.appendChild(box);
  button("help", "Keys ( ? )", function () {
    help.showModal();
  });
  v.canvas.before(bar);

  var note = "";
  v.counted = function () {
    count.textContent = v.hits.length
      ? v.hit + 1 + " of " + v.hits.length + note
      : input.value.trim()
        ? "nothing found"
        : "";
  };
  input.addEventListener("input", function () {
    var text = input.value.trim().toLowerCase(),
      got = text ? p.find(text) : { hits: [], note: "" };
    note = got.note || "";
    if (got.hits.length) v.found(got.hits, 0);
    else {
      v.hits = [];
      v.hit = -1;
      v.counted();
      v.redraw();
    }
  });
  input.addEventListener("keydown", function (e) {
    if (e.key === "Enter") {
      v.next(e.shiftKey ? -1 : 1);
      e.preventDefault();
    }
    if (e.key === "Escape") {
      input.value = "";
      v.clear();
      v.canvas.focus();
      e.preventDefault();
      e.stopPropagation();
    }
  });
  v.search = function () {
    input.focus();
    input.select();
  };
  // jump shows places that were found in another way than by a search.
  v.jump = function (hits, at) {
    input.value = "";
    note = "";
    v.found(hits, at);
  };

  var keys = [
    [
      "w + =",
      "zoom in",
      function () {
        v.zoom(0.5);
      },
    ],
    [
      "s -",
      "zoom out",
      function () {
        v.zoom(2);
      },
    ],
    [
      "a ArrowLeft",
      "move to the left",
      function () {
        v.pan(-0.2);
      },
    ],
    [
      "d ArrowRight",
      "move to the right",
      function () {
        v.pan(0.2);
      },
    ],
    ["Home 0", "show all", v.all],
    [
      "ArrowUp",
      "choose the row above",
      function () {
        step(-1, 0);
      },
    ],
    [
      "ArrowDown",
      "choose the row below",
      function () {
        step(1, 0);
      },
    ],
    [
      ",",
      "choose the one before in the row",
      function () {
        step(0, -1);
      },
    ],
    [
      ".",
      "choose the next one in the row",
      function () {
        step(0, 1);
      },
    ],
    ["Enter f", "zoom to what is chosen", v.zoomChosen],
    ["m", "select the range of what is chosen", v.selectChosen],
    [
      "n",
      "the next place found",
      function () {
        v.next(1);
      },
    ],
    [
      "p",
      "the place found before",
      function () {
        v.next(-1);
      },
    ],
    ["/", "search", v.search],
    [
      "?",
      "this help",
      function () {
        help.showModal();
      },
    ],
    [
      "Escape",
      "clear search, choice and selection; close this help",
      function () {
        input.value = "";
        v.clear();
      },
    ],
  ];
  function step(rows, items) {
    var item = p.move(rows, items, v);
    if (item !== undefined) v.choose(item);
  }
  v.canvas.addEventListener("keydown", function (e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    var name = e.key.length === 1 ? e.key.toLowerCase() : e.key;
    var key = keys.find(function (k) {
      return k[0].split(" ").indexOf(name) >= 0;
    });
    if (key) {
      gpuprof.current = v;
      key[2]();
      e.preventDefault();
      e.stopPropagation();
    }
  });
  v.canvas.addEventListener("focus", function () {
    gpuprof.current = v;
  });
  var help = dialog();
  v.root.appendChild(help);
  function dialog() {
    var d = gpuprof.element("dialog", { class: "help", "aria-label": "Keys" }),
      list = gpuprof.element("dl", { class: "facts" });
    d.appendChild(
      gpuprof.element(
        "p",
        {},
        "Mouse: drag to select, Shift and drag to move, Ctrl and the wheel to zoom, double-click to zoom in. " +
          "Touch: drag to move, two fingers to zoom, the button Select to select.",
      ),
    );
    keys.forEach(function (k) {
      var row = gpuprof.element("div"),
        dt = gpuprof.element("dt");
      k[0].split(" ").forEach(function (name) {
        dt.appendChild(gpuprof.element("kbd", {}, name.replace("Arrow", "")));
        dt.append(" ");
      });
      row.appendChild(dt);
      row.appendChild(gpuprof.element("dd", {}, k[1]));
      list.appendChild(row);
    });
    d.appendChild(list);
    button(
      "close",
      "Close",
      function () {
        d.close();
      },
      d,
    );
    d.addEventListener("close", function () {
      v.canvas.focus({ preventScroll: true });
    });
    return d;
  }
};
// The keys that lead into the pictures from anywhere in the page.
document.addEventListener("keydown", function (e) {
  "use strict";
  var v = gpuprof.current,
    at = document.activeElement;
  if (
    !v ||
    e.ctrlKey ||
    e.metaKey ||
    e.altKey ||
    (at && /^(INPUT|TEXTAREA|SELECT|DIALOG)$/.test(at.tagName)) ||
    document.querySelector("dialog[open]")
  )
    return;
  if (e.key === "/") {
    v.search();
    e.preventDefault();
    v.root.scrollIntoView({ block: "nearest" });
  }
  if (e.key === "?") {
    v.canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "?" }));
    e.preventDefault();
  }
});
