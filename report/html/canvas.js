// What the pictures of a page have in common: one way to draw, zoom, select, search and ask, by mouse, keys and touch.
var gpuprof = (function () {
  "use strict";
  function color(name) {
    return getComputedStyle(document.documentElement)
      .getPropertyValue("--" + name)
      .trim();
  }
  function time(ns) {
    var a = Math.abs(ns);
    if (a >= 1e9) return (ns / 1e9).toPrecision(4) + " s";
    if (a >= 1e6) return (ns / 1e6).toPrecision(4) + " ms";
    if (a >= 1e3) return (ns / 1e3).toPrecision(4) + " us";
    return Math.round(ns) + " ns";
  }
  function bytes(n) {
    var units = ["B", "KiB", "MiB", "GiB", "TiB"],
      i = 0,
      a = Math.abs(n);
    while (a >= 1024 && i < 4) {
      a /= 1024;
      n /= 1024;
      i++;
    }
    return (i ? n.toPrecision(3) : Math.round(n)) + " " + units[i];
  }
  function element(tag, attributes, text) {
    var e = document.createElement(tag);
    Object.keys(attributes || {}).forEach(function (k) {
      e.setAttribute(k, attributes[k]);
    });
    if (text !== undefined) e.textContent = text;
    return e;
  }
  function data(id) {
    var e = document.getElementById(id);
    return e ? JSON.parse(e.textContent) : null;
  }

  // prepare sizes a canvas for the screen's pixels and clears it.
  function prepare(canvas, h) {
    var w = canvas.clientWidth,
      dpr = window.devicePixelRatio || 1,
      g = canvas.getContext("2d");
    canvas.style.height = h + "px";
    if (canvas.width !== Math.round(w * dpr)) canvas.width = Math.round(w * dpr);
    if (canvas.height !== Math.round(h * dpr)) canvas.height = Math.round(h * dpr);
    g.setTransform(dpr, 0, 0, dpr, 0, 0);
    g.clearRect(0, 0, w, h);
    g.font = "12px system-ui, sans-serif";
    g.textBaseline = "middle";
    g.lineWidth = 1;
    return g;
  }
  // label writes a text into a box where it has room.
  function label(g, text, x, y, w, h, ink) {
    if (w < 30) return;
    g.save();
    g.beginPath();
    g.rect(x, y, w - 2, h);
    g.clip();
    g.fillStyle = ink;
    g.textAlign = "left";
    g.fillText(text, x + 4, y + h / 2);
    g.restore();
  }
  // ticks are round values in a range, about as many as asked for; of bytes in KiB, MiB and so on.
  function ticks(from, to, most, ofBytes) {
    var span = to - from,
      unit = ofBytes && span > most ? Math.pow(1024, Math.floor(Math.log(span / most) / Math.log(1024))) : 1,
      out = [];
    var step = unit * Math.pow(10, Math.floor(Math.log10(span / most / unit)));
    [5, 2].some(function (k) {
      if (span / (step * k) >= most) {
        step *= k;
        return true;
      }
      return false;
    });
    for (var t = Math.ceil(from / step) * step; t <= to; t += step) out.push(t);
    return out;
  }
  // axis draws round values and their lines above a picture.
  function axis(g, v, o) {
    var w = v.canvas.clientWidth,
      most = w < 600 ? 2 : 4;
    g.fillStyle = color("soft");
    g.strokeStyle = color("line");
    g.textAlign = "center";
    ticks(v.from, v.to, most, o.text === bytes).forEach(function (t) {
      var x = v.x(t);
      g.beginPath();
      g.moveTo(x, o.top - 4);
      g.lineTo(x, o.h);
      g.stroke();
      if (x > o.left + 20 && x < w - 30) g.fillText(o.text(t), x, 9);
    });
  }
  // table writes a table of what a selection adds up to.
  function table(caption, head, rows) {
    var t = element("table", { class: "sums" }),
      h = element("tr"),
      body = element("tbody");
    t.appendChild(element("caption", {}, caption));
    head.forEach(function (text) {
      h.appendChild(element("th", { scope: "col" }, text));
    });
    t.appendChild(element("thead")).appendChild(h);
    rows.forEach(function (cells) {
      var r = element("tr");
      cells.forEach(function (c, i) {
        var plain = typeof c === "object" ? c : { text: c };
        r.appendChild(
          element(
            i ? "td" : "th",
            i ? (plain.v === undefined ? {} : { "data-v": plain.v }) : { scope: "row" },
            plain.text,
          ),
        );
      });
      body.appendChild(r);
    });
    t.appendChild(body);
    return t;
  }
  return {
    color: color,
    time: time,
    bytes: bytes,
    element: element,
    data: data,
    prepare: prepare,
    label: label,
    ticks: ticks,
    axis: axis,
    table: table,
  };
})();
