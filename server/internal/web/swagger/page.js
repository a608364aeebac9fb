// Keys stay in the memory of the page, and nobody is asked to validate the document.
SwaggerUIBundle({
  url: 'openapi.json',
  domNode: document.getElementById('api'),
  validatorUrl: null,
  persistAuthorization: false,
  deepLinking: true,
  displayRequestDuration: true,
  tryItOutEnabled: true,
  defaultModelsExpandDepth: 0,
});
