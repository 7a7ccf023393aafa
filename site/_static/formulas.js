// MathJax measures Japanese in a formula: our font must be there before it does.
window.MathJax = {
  ...window.MathJax,
  startup: {
    ready() {
      const begin = () => MathJax.startup.defaultReady();
      document.fonts.load('1em "Lesson JP"', "数").then(begin, begin);
    },
  },
};
