// The pages of the console, in the order of the navigation. Each module exports
// show(view, page): it fills view, and stops its work when page.signal aborts.
// scope is the scope that a token needs for the page; '' needs none.
export const routes = [
  { name: 'try', title: 'Try', scope: 'score', load: () => import('./try.js') },
  { name: 'live', title: 'Live', scope: 'feedback', load: () => import('./live.js') },
  { name: 'groups', title: 'Groups', scope: 'feedback', load: () => import('./groups.js') },
  { name: 'label', title: 'Label', scope: 'feedback', load: () => import('./label.js') },
  { name: 'models', title: 'Models', scope: 'score', load: () => import('./models.js') },
  { name: 'training', title: 'Training', scope: 'feedback', load: () => import('./training.js') },
  { name: 'health', title: 'Health', scope: '', load: () => import('./health.js') },
];
