(function () {
  "use strict";
  var data = document.getElementById("run-data"), save = document.getElementById("save");
  if (data && save) {
    save.hidden = false;
    save.addEventListener("click", function () {
      var text = data.textContent, part = text;
      if (save.dataset.file.slice(-3) === ".gz") {
        var raw = atob(JSON.parse(text).data);
        part = new Uint8Array(raw.length);
        for (var i = 0; i < raw.length; i++) part[i] = raw.charCodeAt(i);
      }
      var link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([part], { type: "application/octet-stream" }));
      link.download = save.dataset.file;
      link.click();
      setTimeout(function () { URL.revokeObjectURL(link.href); }, 1000);
    });
  }
  // The contents stand beside a wide page, and are folded above a narrow one.
  var contents = document.querySelector("details.contents"), wide = window.matchMedia("(min-width: 1100px)");
  function fold() { contents.open = wide.matches; }
  if (contents) {
    fold();
    wide.addEventListener("change", fold);
    contents.addEventListener("click", function (e) { if (e.target.tagName === "A" && !wide.matches) contents.open = false; });
    follow(contents);
  }
  // follow marks the section that is being read.
  function follow(list) {
    var links = Array.from(list.querySelectorAll("a")), seen = new Set();
    var watch = new IntersectionObserver(function (changes) {
      changes.forEach(function (c) { if (c.isIntersecting) seen.add(c.target); else seen.delete(c.target); });
      var on = false;
      links.forEach(function (a) {
        a.removeAttribute("aria-current");
        if (!on && seen.has(part(a))) { on = true; a.setAttribute("aria-current", "location"); }
      });
    }, { rootMargin: "0px 0px -60% 0px" });
    function part(a) {
      var e = document.getElementById(decodeURIComponent(a.hash.slice(1)));
      return e && (e.closest("section, details.run") || e);
    }
    links.forEach(function (a) { if (part(a)) watch.observe(part(a)); });
  }
  // Paper cannot be unfolded.
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (d) { d.open = true; });
  });
})();
