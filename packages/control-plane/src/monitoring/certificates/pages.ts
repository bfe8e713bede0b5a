import { formPage, page } from "../../platform/html/pages.ts";
import { getCertificate, listCertificates, usersOf } from "./service.ts";

const pageSize = 50;

/** Certificates of checks. In front of the page of a monitor: their path looks like the id of one. */
export const certificatesPages = [
  page("/monitors/certificates", "tenant", async ({ ctx, offset }) => ({
    view: "certificates/list",
    data: { list: await listCertificates(ctx, { limit: pageSize, offset }), now: ctx.clock.now() },
  })),
  formPage("/monitors/certificates/{id}", async ({ ctx, params }) => ({
    view: "certificates/edit",
    data: {
      certificate: await getCertificate(ctx, params["id"]!),
      users: await usersOf(ctx, params["id"]!),
      now: ctx.clock.now(),
    },
  })),
];
