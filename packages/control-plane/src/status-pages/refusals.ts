import { AppError } from "@statusmesh/shared/errors";

export const notFound = () => new AppError("STATUS_PAGE_NOT_FOUND", "There is no status page with this id.");
