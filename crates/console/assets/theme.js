// Sets the chosen theme before the first paint. Without a choice the system's preference applies.
(() => {
  try {
    const theme = localStorage.getItem('nagi-theme');
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  } catch {
    // Storage may be disabled; the system's preference is fine.
  }
})();
